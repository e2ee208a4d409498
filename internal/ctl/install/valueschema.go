package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/contiv/deploy"
	"github.com/contiv/contiv/internal/lib/config"
)

// valueSchema is the part of JSON schema used by the chart's schema.
type valueSchema struct {
	Type       schemaTypes             `json:"type"`
	Properties map[string]*valueSchema `json:"properties"`
	// AdditionalProperties is false, or the schema of all other properties.
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
	Items                *valueSchema    `json:"items"`
	Enum                 []any           `json:"enum"`
	Pattern              string          `json:"pattern"`
	Minimum              *float64        `json:"minimum"`
	Maximum              *float64        `json:"maximum"`
}

// schemaTypes is one type or several.
type schemaTypes []string

func (s *schemaTypes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*s = schemaTypes{""}
		return json.Unmarshal(data, &(*s)[0])
	}
	return json.Unmarshal(data, (*[]string)(s))
}

// checkValues returns an error that names the first unknown or invalid value.
func checkValues(values map[string]any) error {
	data, err := deploy.Chart.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		return err
	}
	var s valueSchema
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	return s.check("", values)
}

func (s *valueSchema) check(at string, v any) error {
	if v == nil { // removes a default
		return nil
	}
	if len(s.Type) > 0 && !slices.ContainsFunc(s.Type, func(t string) bool { return isOfType(v, t) }) {
		return fmt.Errorf("%s is %v: it must be of type %s", at, v, strings.Join(s.Type, " or "))
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s is %v: it must be one of %v", at, v, s.Enum)
	}
	switch v := v.(type) {
	case map[string]any:
		return s.checkProperties(at, v)
	case []any:
		for i, item := range v {
			if s.Items == nil {
				break
			}
			if err := s.Items.check(fmt.Sprintf("%s[%d]", at, i), item); err != nil {
				return err
			}
		}
	case string:
		if s.Pattern == "" {
			return nil
		}
		if matches, err := regexp.MatchString(s.Pattern, v); err != nil || !matches {
			return fmt.Errorf("%s is %q, which does not match %s", at, v, s.Pattern)
		}
	case float64:
		if s.Minimum != nil && v < *s.Minimum || s.Maximum != nil && v > *s.Maximum {
			return fmt.Errorf("%s is %v, which is out of range", at, v)
		}
	}
	return nil
}

func (s *valueSchema) checkProperties(at string, values map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		property := s.Properties[name]
		switch {
		case property != nil:
		case string(s.AdditionalProperties) == "false":
			known := slices.Sorted(maps.Keys(s.Properties))
			if nearest, ok := config.Nearest(name, known); ok {
				return fmt.Errorf("the chart has no value %s: did you mean %q?", path, nearest)
			}
			return fmt.Errorf("the chart has no value %s: use one of %s", path, strings.Join(known, ", "))
		case len(s.AdditionalProperties) > 0 && s.AdditionalProperties[0] == '{':
			property = &valueSchema{}
			if err := json.Unmarshal(s.AdditionalProperties, property); err != nil {
				return err
			}
		default:
			continue
		}
		if err := property.check(path, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func isOfType(v any, name string) bool {
	switch v := v.(type) {
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	}
	return false
}
