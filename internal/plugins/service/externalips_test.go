package service_test

import (
	"fmt"
	"strings"
	"testing"

	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// Kubernetes deprecates externalIPs: by default they work, and status names the services.
func TestExternalIPsAreAllowedNamedOrDenied(t *testing.T) {
	external := func(name string, addresses ...string) *k8s.Service {
		return nodePortService(func(s *k8s.Service) { s.Name, s.ExternalIps = name, addresses })
	}
	for setting, want := range map[string]struct {
		translated bool
		note       string
	}{
		"":                     {true, "services with externalIPs, which Kubernetes has deprecated: default/web;"},
		"\nexternalIPs: warn":  {true, "services with externalIPs, which Kubernetes has deprecated: default/web;"},
		"\nexternalIPs: allow": {true, ""},
		"\nexternalIPs: deny":  {false, "externalIPs are denied by service.conf, and not translated, of services default/web"},
	} {
		s := newCluster().plugin(t, "services: vswitch"+setting)
		resync(t, s, state(external("web", "198.51.100.7"), webSlice("a", "10.1.1.2@node1")))
		translated := false
		for _, f := range reportOf(t, s, "?service=default/web", 200).Services[0].Frontends {
			translated = translated || f.Kind == processor.ExternalIP
		}
		if translated != want.translated {
			t.Errorf("%q: translated %v, want %v", setting, translated, want.translated)
		}
		if notes := fmt.Sprint(s.Notes()); !strings.Contains(notes, want.note) || want.note == "" && strings.Contains(notes, "externalIPs") {
			t.Errorf("%q: notes %s, want %q", setting, notes, want.note)
		}
		// A service without externalIPs is not named any more.
		resync(t, s, state(external("web"), webSlice("a", "10.1.1.2@node1")))
		if notes := fmt.Sprint(s.Notes()); strings.Contains(notes, "externalIPs") {
			t.Errorf("%q: notes without externalIPs: %s", setting, notes)
		}
	}
}
