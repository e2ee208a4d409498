package ctl

import (
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
)

// Model is an element of the output of "models" in JSON and YAML.
type Model struct {
	Message   string `json:"message"`
	KeyPrefix string `json:"keyPrefix"`
	// Singleton: the prefix is the key.
	Singleton bool `json:"singleton,omitempty"`
}

func (c *cli) modelsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "The kinds of northbound values, with the prefixes of their keys",
		Long: "Lists the kinds of values that can be requested. In etcd, their keys follow\n" +
			models.NodePrefix("<node>") + ". No agent is asked.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var list []Model
			t := c.printer().table("MESSAGE", "KEY PREFIX")
			for _, m := range models.All() {
				list = append(list, Model{m.ProtoName(), m.KeyPrefix(), m.Singleton()})
				prefix := m.KeyPrefix()
				if m.Singleton() {
					prefix += " (the key itself)"
				}
				t.add(m.ProtoName(), prefix)
			}
			if c.format != asTable {
				return c.format.encode(c.out, list)
			}
			t.write()
			return nil
		},
	}
}
