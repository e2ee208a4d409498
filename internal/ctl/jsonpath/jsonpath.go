// Package jsonpath selects parts of JSON by templates like kubectl. For a template that selects
// nothing, the error lists the existing names.
package jsonpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"
)

// Parse parses a template with optional braces, and returns it with braces.
func Parse(template string) (path *jsonpath.JSONPath, whole string, err error) {
	if template == "" {
		return nil, "", errors.New("-o jsonpath: add a template, such as -o jsonpath='{[*].node}'")
	}
	if !strings.Contains(template, "{") {
		template = "{" + template + "}"
	}
	path = jsonpath.New("output")
	if err := path.Parse(template); err != nil {
		return nil, "", fmt.Errorf("-o jsonpath=%s: %w", template, err)
	}
	return path, template, nil
}

// Extract returns the part of JSON selected by a template, on one line.
func Extract(data []byte, template string) ([]byte, error) {
	path, template, err := Parse(template)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := path.Execute(&out, value); err != nil {
		return nil, fmt.Errorf("-o jsonpath=%s: %w", template, selectsNothing(err, template, value))
	}
	return append(out.Bytes(), '\n'), nil
}

// selectsNothing adds the existing names to the error of a template that names a missing member.
func selectsNothing(err error, template string, value any) error {
	name, unknown := strings.CutSuffix(err.Error(), " is not found")
	before, found := beforeName(template, name)
	if !unknown || !found || name == "" && !strings.HasSuffix(template, ".}") {
		return fmt.Errorf("%w: -o json shows all names", err)
	}
	wrong := fmt.Errorf("unknown name %q", name)
	if name == "" {
		before, wrong = strings.TrimSuffix(template, ".}"), errors.New("a name is missing after the last dot")
	}
	path, _, unclear := Parse(before + "}")
	if unclear != nil {
		return fmt.Errorf("%w: -o json shows all names", wrong)
	}
	at, unclear := path.FindResults(value)
	if unclear != nil || len(at) == 0 || len(at[len(at)-1]) == 0 {
		return fmt.Errorf("%w: -o json shows all names", wrong)
	}
	last := at[len(at)-1][0] // earlier results belong to other parts of the template
	if !last.IsValid() || last.Interface() == nil {
		return fmt.Errorf("%w: the object has no fields", wrong)
	}
	switch there := last.Interface().(type) {
	case map[string]any:
		if len(there) == 0 {
			return fmt.Errorf("%w: the object has no names", wrong)
		}
		return fmt.Errorf("%w: existing names are %s", wrong, strings.Join(slices.Sorted(maps.Keys(there)), ", "))
	case []any:
		return fmt.Errorf("%w: the element is a list: use [0] for its first element, or [*] for all, before the name", wrong)
	default:
		return fmt.Errorf("%w: the element is a single value", wrong)
	}
}

// beforeName returns the part of a template before a name. It skips longer names that start with
// it.
func beforeName(template, name string) (before string, found bool) {
	const ends = " .,[]$@{}()=!<>" // a name
	for after := template; ; {
		if _, after, found = strings.Cut(after, "."+name); !found {
			return "", false
		}
		if after != "" && strings.Contains(ends, after[:1]) {
			return template[:len(template)-len(after)-len(name)-1], true
		}
	}
}
