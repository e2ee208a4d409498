package ctl

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/plugins/policy"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/rest"
)

// Services and policies may be named without their namespaces, as pods.
func TestNamesWithoutNamespaces(t *testing.T) {
	var asked string
	mux := http.NewServeMux()
	mux.HandleFunc(service.URL, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("service")
		rest.JSON(w, service.Report{Translator: service.Translator{VSwitch: true}, Services: []service.ServiceReport{
			{Namespace: "shop", Name: "cart", Frontends: make([]service.FrontendReport, 1)},
			{Namespace: "a", Name: "web", Frontends: make([]service.FrontendReport, 1)}, {Namespace: "b", Name: "web", Frontends: make([]service.FrontendReport, 1)},
		}})
	})
	mux.HandleFunc(policy.URL, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("policy")
		rest.JSON(w, policy.Report{Policies: []policy.PolicyReport{{Name: "baseline", Realised: true}, {Namespace: "x", Name: "baseline", Realised: true}, {Namespace: "x", Name: "deny", Realised: true}}})
	})
	socket := filepath.Join(t.TempDir(), "agent.sock")
	serve(t, socket, mux)
	for args, want := range map[string]string{
		"services shop/cart":    "shop/cart",
		"services cart":         "shop/cart",
		"services cart -n team": "team/cart",
		"services web -n b":     "b/web",
		"services nope":         "default/nope",
		"policies x/deny":       "x/deny",
		"policies deny":         "x/deny",
		"policies baseline":     "baseline",
		"policies deny -n y":    "y/deny",
		"policies nope":         "default/nope",
	} {
		if _, _, err := run(t, append([]string{"--agent", "n1=unix://" + socket}, strings.Fields(args)...)...); asked != want {
			t.Errorf("%s: asked for %s, not %s: %v", args, asked, want, err)
		}
	}
	if _, _, err := run(t, "--agent", "n1=unix://"+socket, "services", "web"); err == nil || err.Error() != `"web" means several services: a/web, b/web: give the namespace, also with -n` {
		t.Errorf("%v", err)
	}
}
