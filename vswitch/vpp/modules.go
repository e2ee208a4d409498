package vpp

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
)

// module is a part of VPP's API that is there as a whole, as we know it, or not used.
type module struct {
	name string // for people
	// plugin of VPP that has it; "": VPP itself, without which nothing works.
	plugin   string
	messages []api.Message
}

// modules are all that the driver may use; filled in by the files that use them.
var modules []*module

// newModule declares that the driver uses messages of a plugin; "": of VPP itself.
func newModule(plugin, name string, messages ...api.Message) *module {
	m := &module{name: name, plugin: plugin, messages: messages}
	modules = append(modules, m)
	return m
}

// checkModules returns why each module cannot be used that is not in order, and an
// error if one of those is VPP itself.
func checkModules(c *vppapi.Conn) (lacks map[*module]error, err error) {
	lacks = map[*module]error{}
	var fatal []string
	for _, m := range modules {
		wrong := c.Check(m.messages...)
		switch {
		case len(wrong) == 0:
		case m.plugin == "":
			for _, w := range wrong {
				fatal = append(fatal, w.String())
			}
		case allMissing(wrong, m.messages):
			lacks[m] = vswitch.Unsupported("%s: VPP has not loaded its plugin %s; enable it in the section plugins of VPP's start-up configuration and restart VPP", m.name, m.plugin)
		default:
			lacks[m] = vswitch.Unsupported("%s: VPP's plugin %s is not that of VPP 25.10: %s", m.name, m.plugin, list(wrong))
		}
	}
	if fatal != nil {
		return lacks, fmt.Errorf("this is not VPP 25.10: %d messages do not match: %s", len(fatal), strings.Join(fatal, "; "))
	}
	return lacks, nil
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
