package ctl

import (
	"fmt"
	"maps"
	"regexp"

	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
)

func (g *configuring) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [MODEL]",
		Short: "Print the JSON schema of value files or of a model",
		Long: "Print the JSON schema (draft 7) of value files, or of the values of one MODEL such as vpp.interfaces.\n" +
			"Editors use it to complete and check files. For the YAML language server, begin the file with:\n\n" +
			"  # yaml-language-server: $schema=contiv-schema.json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return g.format.encode(g.out, fileSchema())
			}
			m, err := modelNamed(args[0])
			if err != nil {
				return err
			}
			return g.format.encode(g.out, m.Schema())
		},
	}
	return withFormats(cmd, asJSON, asYAML)
}

func modelNamed(name string) (*models.Model, error) {
	var known []string
	for _, m := range models.All() {
		if m.Name() == name || m.ProtoName() == name {
			return m, nil
		}
		known = append(known, m.Name())
	}
	return nil, text.Hinted(fmt.Errorf("unknown model %q", name), name, known)
}

// fileSchema is the schema of a document. The model or the key determines the value's type.
func fileSchema() map[string]any {
	definitions := make(map[string]any)
	var names, cases []any
	for _, m := range models.All() {
		schema := m.Schema()
		maps.Copy(definitions, schema["definitions"].(map[string]any))
		names = append(names, m.Name(), m.ProtoName())
		value := map[string]any{"properties": map[string]any{"value": map[string]any{"allOf": schema["allOf"]}}}
		cases = append(cases,
			caseOf("model", map[string]any{"enum": []any{m.Name(), m.ProtoName()}}, value),
			caseOf("key", map[string]any{"pattern": keyPatternOf(m)}, value))
	}
	return map[string]any{
		"$schema":     "http://json-schema.org/draft-07/schema#",
		"title":       "Value of the northbound API",
		"description": "One document per value, see docs/user/northbound.md",
		"type":        "object",
		"properties": map[string]any{
			"key":   map[string]any{"type": "string", "description": "Key of the value"},
			"model": map[string]any{"enum": names, "description": "Kind of the value, instead of the key, which is then made of the value"},
			"value": map[string]any{"type": "object"},
		},
		"required":             []any{"value"},
		"anyOf":                []any{map[string]any{"required": []any{"key"}}, map[string]any{"required": []any{"model"}}},
		"additionalProperties": false,
		"allOf":                cases,
		"definitions":          definitions,
	}
}

// caseOf is a conditional part of a schema: it applies if a property matches.
func caseOf(property string, is, then map[string]any) map[string]any {
	return map[string]any{
		"if":   map[string]any{"required": []any{property}, "properties": map[string]any{property: is}},
		"then": then,
	}
}

// keyPatternOf returns a pattern that matches the keys of a model.
func keyPatternOf(m *models.Model) string {
	pattern := "^" + regexp.QuoteMeta(m.KeyPrefix())
	if m.Singleton() {
		pattern += "$"
	}
	return pattern
}

// Model is an element of the output of "models" in JSON and YAML.
type Model struct {
	Message   string `json:"message"`
	KeyPrefix string `json:"keyPrefix"`
	// Key is the template of keys: {field} stands for a field; a part in brackets is omitted if its
	// field is not set.
	Key string `json:"key"`
	// Singleton: the prefix is the key.
	Singleton bool `json:"singleton,omitempty"`
}

func (c *cli) modelsCommand() *cobra.Command {
	return listing(&cobra.Command{
		Use:   "models",
		Short: "List the northbound models and their keys",
		Long: "List the models of values that can be requested, with their keys. In a key, {field} stands for a\n" +
			"field of the value, and a part in brackets is omitted if its field is not set. In etcd, keys have\n" +
			"the prefix " + models.NodePrefix("<node>") + ".",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var list []Model
			t := c.printer().Table("MESSAGE", "KEY")
			for _, m := range models.All() {
				list = append(list, Model{m.ProtoName(), m.KeyPrefix(), m.KeyPattern(), m.Singleton()})
				t.Add(m.ProtoName(), m.KeyPattern())
			}
			switch c.format {
			case asTable:
				t.Print()
			case asName:
				for _, m := range list {
					c.writeNames([]string{m.Message})
				}
			default:
				return c.format.encode(c.out, list)
			}
			return nil
		},
	})
}
