package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checker compares a document with a Go type and collects errors.
type checker struct {
	errs []error
	// wrong holds the keys and values with errors.
	wrong map[*yaml.Node]bool
	// merging holds the mappings with merged keys ("<<") being visited.
	merging map[*yaml.Node]bool
}

func (c *checker) errorf(node *yaml.Node, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("line %d: %s", node.Line, fmt.Sprintf(format, args...)))
	c.wrong[node] = true
}

func newChecker() *checker {
	return &checker{wrong: make(map[*yaml.Node]bool), merging: make(map[*yaml.Node]bool)}
}

// remove removes the parts with errors from a node, and reports whether anything is left.
func (c *checker) remove(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode {
		return !c.wrong[node.Alias] // errors in it are removed at its definition
	}
	if c.wrong[node] {
		return false
	}
	kept := node.Content[:0:0]
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if key, value := node.Content[i], node.Content[i+1]; !c.wrong[key] && c.remove(value) {
				kept = append(kept, key, value)
			}
		}
	default:
		for _, item := range node.Content {
			if c.remove(item) {
				kept = append(kept, item)
			}
		}
	}
	node.Content = kept
	return true
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// check checks that the node fits the type. path is the key of the node; limits is the limits tag
// of its field.
func (c *checker) check(node *yaml.Node, t reflect.Type, path, limits string) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return
	}
	for t.Kind() == reflect.Pointer && !t.Implements(unmarshaler) {
		t = t.Elem()
	}
	switch {
	case t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler):
		c.checkLeaf(node, t, path, limits)
	case t.Kind() == reflect.Struct:
		c.checkStruct(node, t, path)
	case t.Kind() == reflect.Map:
		if c.expect(node, yaml.MappingNode, "keys with values", path) {
			c.eachKey(node, path, func(_, value *yaml.Node, keyPath string) { c.check(value, t.Elem(), keyPath, limits) })
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		if c.expect(node, yaml.SequenceNode, "a list", path) {
			for i, item := range node.Content {
				c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), limits)
			}
		}
	default:
		c.checkLeaf(node, t, path, limits)
	}
}

func (c *checker) checkStruct(node *yaml.Node, t reflect.Type, path string) {
	if !c.expect(node, yaml.MappingNode, "keys with values", path) {
		return
	}
	fields := structFields(t)
	c.eachKey(node, path, func(key, value *yaml.Node, keyPath string) {
		if field, known := fields.types[key.Value]; known {
			c.check(value, field.Type, keyPath, field.Tag.Get("limits"))
			return
		}
		c.errorf(key, "unknown key %q: %s", keyPath, hint(key.Value, fields.names))
	})
}

// eachKey visits the pairs of a mapping, including merged ones, and reports duplicate keys.
func (c *checker) eachKey(node *yaml.Node, path string, visit func(key, value *yaml.Node, keyPath string)) {
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Tag == "!!merge" {
			if value.Kind == yaml.AliasNode {
				value = value.Alias
			}
			if value.Kind == yaml.MappingNode && !c.merging[value] {
				c.merging[value] = true
				c.eachKey(value, path, visit)
				delete(c.merging, value)
			}
			continue
		}
		keyPath := key.Value
		if path != "" {
			keyPath = path + "." + key.Value
		}
		if line, twice := seen[key.Value]; twice {
			c.errorf(key, "key %q was already given in line %d: remove one of them", keyPath, line)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, value, keyPath)
	}
}

func (c *checker) checkLeaf(node *yaml.Node, t reflect.Type, path, limits string) {
	encoded, err := toJSON(node)
	if err != nil {
		c.errorf(node, "value of %q: %v", path, err)
		return
	}
	err = json.Unmarshal(encoded, reflect.New(t).Interface())
	if mismatch, ok := err.(*json.UnmarshalTypeError); ok {
		c.errorf(node, "value of %q is %s: %s is expected", path, encoded, describe(mismatch.Type, limits))
	} else if err != nil {
		c.errorf(node, "value of %q is %s: %v", path, encoded, err)
	}
}

func (c *checker) expect(node *yaml.Node, kind yaml.Kind, what, path string) bool {
	if node.Kind == kind {
		return true
	}
	if path == "" {
		c.errorf(node, "the document must consist of %s", what)
	} else {
		c.errorf(node, "value of %q: %s expected", path, what)
	}
	return false
}

// describe names a type for people who write configuration. limits, if not "", are the accepted
// numbers.
func describe(t reflect.Type, limits string) string {
	if limits != "" {
		return "a whole number from " + limits
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text (in quotes)"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("a whole number from 0 to %d", 1<<t.Bits()-1)
	case reflect.Uint, reflect.Uint64:
		return "a whole number, not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return t.String()
}

type fieldSet struct {
	names []string
	types map[string]reflect.StructField
}

func structFields(t reflect.Type) fieldSet {
	set := fieldSet{types: make(map[string]reflect.StructField)}
	set.add(t)
	return set
}

func (s *fieldSet) add(t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-":
		case field.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			s.add(embedded)
		case field.IsExported():
			if name == "" {
				name = field.Name
			}
			s.names = append(s.names, name)
			s.types[name] = field
		}
	}
}
