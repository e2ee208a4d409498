package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Overrides are options set by flags. Apply them after the file, so that flags win.
type Overrides struct{ options []*option }

// Flags registers a flag for every option of the struct that cfg points to. The name is the prefix
// and the key in kebab case: "delayRetry" becomes --controller-delay-retry. Keys of nested structs
// follow their parent's key. Values are YAML; lists of structs have no flag.
func Flags(flags *pflag.FlagSet, prefix string, cfg any) *Overrides {
	o := &Overrides{}
	o.add(flags, prefix, nil, reflect.TypeOf(cfg).Elem())
	return o
}

// Apply sets the options given as flags in the struct that cfg points to.
func (o *Overrides) Apply(cfg any) error {
	for _, option := range o.options {
		if option.value == nil {
			continue
		}
		value := option.value
		for i := len(option.path) - 1; i >= 0; i-- {
			value, _ = json.Marshal(map[string]json.RawMessage{option.path[i]: value}) // valid JSON
		}
		if err := json.Unmarshal(value, cfg); err != nil {
			return fmt.Errorf("--%s=%s: %w", option.flag, option.text, err)
		}
	}
	return nil
}

func (o *Overrides) add(flags *pflag.FlagSet, prefix string, path []string, t reflect.Type) {
	fields := structFields(t)
	for _, name := range fields.names {
		field := fields.types[name].Type
		for field.Kind() == reflect.Pointer {
			field = field.Elem()
		}
		here := append(path[:len(path):len(path)], name)
		flag := prefix + "-" + kebab(name)
		switch {
		case reflect.PointerTo(field).Implements(unmarshaler):
		case field.Kind() == reflect.Struct:
			o.add(flags, flag, here, field)
			continue
		case field.Kind() == reflect.Slice && field.Elem().Kind() == reflect.Struct:
			continue
		}
		option := &option{flag: flag, path: here, typ: field}
		o.options = append(o.options, option)
		registered := flags.VarPF(option, flag, "", "override "+strings.Join(here, ".")+" of the configuration file")
		if field.Kind() == reflect.Bool {
			registered.NoOptDefVal = "true"
		}
	}
}

type option struct {
	flag string
	path []string
	typ  reflect.Type
	text string
	// value is the JSON of text; nil if the flag was not given.
	value json.RawMessage
}

func (o *option) String() string { return o.text }

func (o *option) Type() string {
	switch {
	case o.typ == reflect.TypeFor[Duration]():
		return "duration"
	case o.typ.Kind() == reflect.Bool:
		return "bool"
	case o.typ.Kind() == reflect.String:
		return "string"
	case o.typ.Kind() == reflect.Slice:
		return "list"
	}
	return "value"
}

func (o *option) Set(text string) error {
	value, err := o.parse(text)
	if err != nil {
		return err
	}
	o.text, o.value = text, value
	return nil
}

func (o *option) parse(text string) (json.RawMessage, error) {
	if o.typ.Kind() == reflect.String {
		return json.Marshal(text)
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		return nil, err
	}
	if len(node.Content) == 0 {
		return nil, fmt.Errorf("a value is missing")
	}
	c := newChecker()
	c.checkLeaf(node.Content[0], o.typ, strings.Join(o.path, "."), "")
	if len(c.errs) > 0 {
		_, message, _ := strings.Cut(c.errs[0].Error(), ": ") // without the line number
		return nil, fmt.Errorf("%s", message)
	}
	return toJSON(node.Content[0])
}

// kebab turns "remoteDBProbingInterval" into "remote-db-probing-interval".
func kebab(key string) string {
	var b strings.Builder
	runes := []rune(key)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 {
			endOfAcronym := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if !unicode.IsUpper(runes[i-1]) || endOfAcronym {
				b.WriteByte('-')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
