package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/config"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mistake returns an error about an unknown field or a value of the wrong type.
func mistake(path *field.Path, format string, args ...any) error {
	return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
)

func form(path *field.Path, value any, typ reflect.Type) []error {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case value == nil:
		return nil
	case reflect.PointerTo(typ).Implements(unmarshaler):
		return ownForm(path, value, typ)
	}
	switch v := value.(type) {
	case map[string]any:
		switch typ.Kind() {
		case reflect.Struct:
			return formOfFields(path, v, typ)
		case reflect.Map:
			var errs []error
			for _, key := range slices.Sorted(maps.Keys(v)) {
				errs = append(errs, form(path.Key(key), v[key], typ.Elem())...)
			}
			return errs
		}
	case []any:
		if typ.Kind() == reflect.Slice {
			var errs []error
			for i, item := range v {
				errs = append(errs, form(path.Index(i), item, typ.Elem())...)
			}
			return errs
		}
	case string:
		if typ.Kind() == reflect.String {
			return nil
		}
	case bool:
		if typ.Kind() == reflect.Bool {
			return nil
		}
	case int64:
		switch typ.Kind() {
		case reflect.Int32:
			if v < math.MinInt32 || v > math.MaxInt32 {
				return []error{mistake(path, "%d is too large or too small a number", v)}
			}
			return nil
		case reflect.Int64, reflect.Float64:
			return nil
		}
	case float64:
		if typ.Kind() == reflect.Float64 {
			return nil
		}
	}
	return []error{mistake(path, "must be %s, not %s", wanted(typ), given(value))}
}

func ownForm(path *field.Path, value any, typ reflect.Type) []error {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(typ).Interface())
	}
	switch {
	case err == nil:
		return nil
	case typ == intOrString:
		return []error{mistake(path, "must be a number or a name, not %s", given(value))}
	}
	return []error{mistake(path, "%s has not the form of a %s", given(value), typ.Name())}
}

func formOfFields(path *field.Path, fields map[string]any, typ reflect.Type) []error {
	known := map[string]reflect.Type{}
	collect(typ, known)
	names := slices.Sorted(maps.Keys(known))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := path.Child(name)
		if path == nil {
			at = field.NewPath(name)
		}
		if fieldType, ok := known[name]; ok {
			errs = append(errs, form(at, fields[name], fieldType)...)
		} else if near, ok := config.Nearest(name, names); ok {
			errs = append(errs, mistake(at, "no such field: did you mean %q?", near))
		} else {
			errs = append(errs, mistake(at, "no such field: known here are %s", strings.Join(names, ", ")))
		}
	}
	return errs
}

func collect(typ reflect.Type, known map[string]reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			collect(embedded, known)
		case f.IsExported() && name != "-" && name != "":
			known[name] = f.Type
		}
	}
}

func wanted(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a map of fields"
}

func given(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case map[string]any:
		return "a map of fields"
	case []any:
		return "a list"
	}
	return fmt.Sprint(value)
}
