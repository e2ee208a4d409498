package config_test

import (
	"testing"

	"github.com/contiv/contiv/internal/lib/config"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"mtuSzie", []string{"mtuSize", "gateway"}, "mtuSize"},
		{"default/wbe", []string{"default/db", "default/web"}, "default/web"},
		{"defualt/web", []string{"default/web"}, "default/web"},
		{"config/vpp/interfaces/tap1", []string{"config/vpp/v2/interfaces/tap1"}, "config/vpp/v2/interfaces/tap1"},
		// They share only the namespace.
		{"default/nosuch", []string{"default/loc"}, ""},
		{"gateway", []string{"mtuSize"}, ""},
	} {
		if got, ok := config.Nearest(c.word, c.known); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v, not %q", c.word, got, ok, c.want)
		}
	}
}
