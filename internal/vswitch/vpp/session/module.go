package session

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
)

// Module is a part of VPP's API that is used only if all of it is available in the expected
// version.
type Module struct {
	name string // for people
	// plugin that provides it; "" for VPP itself, which is mandatory.
	plugin   string
	messages []api.Message
}

// NewModule declares related messages of a plugin; "" for VPP itself.
func NewModule(plugin, name string, messages ...api.Message) *Module {
	return &Module{name: name, plugin: plugin, messages: messages}
}

// checkModules returns why each module cannot be used, nil if it can, and an error if a mandatory
// one cannot.
func checkModules(c *vppapi.Conn, modules []*Module) (checked map[*Module]error, err error) {
	checked = map[*Module]error{}
	var fatal []string
	for _, m := range modules {
		wrong := c.Check(m.messages...)
		switch {
		case len(wrong) == 0:
			checked[m] = nil
		case m.plugin == "":
			for _, w := range wrong {
				fatal = append(fatal, w.String())
			}
		case allMissing(wrong, m.messages):
			checked[m] = vswitch.Unsupported("%s: VPP has not loaded its plugin %s; enable it in the section plugins of VPP's start-up configuration and restart VPP", m.name, m.plugin)
		default:
			checked[m] = vswitch.Unsupported("%s: VPP's plugin %s is not from VPP 25.10: %s", m.name, m.plugin, list(wrong))
		}
	}
	if fatal != nil {
		return checked, fmt.Errorf("this is not VPP 25.10: %d messages do not match: %s", len(fatal), strings.Join(fatal, "; "))
	}
	return checked, nil
}

func allMissing(wrong []vppapi.Mismatch, all []api.Message) bool {
	for _, w := range wrong {
		if w.Theirs != "" {
			return false
		}
	}
	return len(wrong) == len(all)
}

func list(wrong []vppapi.Mismatch) string {
	texts := make([]string, len(wrong))
	for i, w := range wrong {
		texts[i] = w.String()
	}
	return strings.Join(texts, "; ")
}
