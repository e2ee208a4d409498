package ctl

import (
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
)

// Model is an element of the output of "models" in JSON and YAML.
type Model struct {
	Message   string `json:"message"`
	KeyPrefix string `json:"keyPrefix"`
	// Key is how keys are made: {field} stands for a field, what is in brackets is
	// left out if the field in it is not set.
	Key string `json:"key"`
	// Singleton: the prefix is the key.
	Singleton bool `json:"singleton,omitempty"`
}

func (c *cli) modelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "The kinds of northbound values, and how their keys are made",
		Long: "Lists the kinds of values that can be requested. In their keys, {field} stands\n" +
			"for a field of the value, and what is in brackets is left out if the field in\n" +
			"it is not set. In etcd, keys follow " + models.NodePrefix("<node>") + ". No agent is asked.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var list []Model
			t := c.printer().Table("MESSAGE", "KEY")
			for _, m := range models.All() {
				list = append(list, Model{m.ProtoName(), m.KeyPrefix(), m.KeyPattern(), m.Singleton()})
				t.Add(m.ProtoName(), m.KeyPattern())
			}
			if c.format != asTable {
				return c.format.encode(c.out, list)
			}
			t.Print()
			return nil
		},
	}
}
