package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load decodes a YAML or JSON document into the struct that into points to. Keys are the json tags
// of its fields, case-sensitive; missing keys leave their fields unchanged. An empty document is
// valid.
//
// The tag limits of a number field, such as "1 to 255", is used in errors about values outside its
// type.
//
// The error lists all problems with their lines: unknown keys with the nearest known one, values of
// the wrong type, and duplicate keys. After an error, into is unchanged.
func Load(data []byte, into any) error {
	root, mistakes, err := examine(data, into)
	if err := cmp.Or(err, mistakes); err != nil || root == nil {
		return err
	}
	return decode(root, into)
}

// examine returns the root of a document without the parts with errors (nil if nothing is left),
// and these errors. err is set if the document cannot be parsed.
func examine(data []byte, into any) (root *yaml.Node, mistakes, err error) {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config.Load needs a pointer to a struct, not %T", into))
	}
	root, err = parse(data)
	if err != nil || root == nil {
		return nil, nil, err
	}
	c := newChecker()
	c.check(root, target.Type().Elem(), "", "")
	if len(c.errs) > 0 && !c.remove(root) {
		root = nil
	}
	return root, errors.Join(c.errs...), nil
}

func decode(root *yaml.Node, into any) error {
	encoded, err := toJSON(root)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(encoded, into); err != nil {
		return fmt.Errorf("configuration: %w", err) // the checker found no error
	}
	return nil
}

// LoadFile is Load for a file; errors name it. The error for a missing file wraps fs.ErrNotExist.
func LoadFile(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := Load(data, into); err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	return nil
}

// Examine returns all errors in a file: the ones of LoadFile, and the ones of check, which is
// called when into has the valid parts of the file.
func Examine(path string, into any, check func() error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	root, mistakes, err := examine(data, into)
	if err == nil && root != nil {
		err = decode(root, into)
	}
	if err == nil {
		err = errors.Join(mistakes, check())
	}
	return ofFile(path, err)
}

// ofFile prefixes each line of an error with the file.
func ofFile(path string, err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) == 1 {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("configuration file %s: %s", path, line)
	}
	return errors.New(strings.Join(lines, "\n"))
}

// parse returns the root of the only document, or nil if it is empty.
func parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := decoder.Decode(&doc); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); err != io.EOF {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("line %d: a second document (\"---\"): only one is allowed", second.Line)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

func toJSON(node *yaml.Node) ([]byte, error) {
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", node.Line, err)
	}
	return encoded, nil
}
