package ctl

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
)

// Services and policies may be named without namespace, like pods.
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
	if _, _, err := run(t, "--agent", "n1=unix://"+socket, "services", "web"); err == nil || err.Error() != `"web" matches several services: a/web, b/web: add the namespace, for example with -n` {
		t.Errorf("%v", err)
	}
}

// An unknown name is a usage error, unless an agent does not answer.
func TestNamesThatNobodyHas(t *testing.T) {
	mux := http.NewServeMux()
	for _, url := range []string{service.URL, policy.URL} {
		mux.HandleFunc(url, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" {
				rest.JSON(w, struct{}{})
				return
			}
			rest.Error(w, http.StatusNotFound, errors.New("no such name"))
		})
	}
	socket := filepath.Join(t.TempDir(), "agent.sock")
	serve(t, socket, mux)
	both := []string{"--agent", "n1=unix://" + socket, "--agent", "n2=unix://" + socket}
	withASilentOne := []string{"--agent", "n1=unix://" + socket, "--agent", "n2=unix://" + socket + ".none"}
	for _, args := range []string{"services nope", "services nope -o json", "policies x/nope", "explain svc/nope"} {
		_, errOut, err := run(t, append(both, strings.Fields(args)...)...)
		if ExitCode(err) != exitUsage || err.Error() != "no such name" || errOut != "" {
			t.Errorf("%s: exit code %d, %v, %s", args, ExitCode(err), err, errOut)
		}
		if _, _, err := run(t, append(withASilentOne, strings.Fields(args)...)...); ExitCode(err) != 1 {
			t.Errorf("%s, with a silent agent: exit code %d, %v", args, ExitCode(err), err)
		}
	}
	flags := twoNodes(t)
	for _, args := range []string{
		"explain nope", "explain pod/nope", "explain node/nope", "explain nope -n shop", "timeline nope", "values nope", "graph nope --node n1", "graph web n2", "dump config/vpp/v2/interfaces/nope",
		"explain vxlan", "explain", "config get --all nope --node n1", "config get nope", "graph svc/shop/nope --node n1", "timeline svc/shop/nope", "config get --all svc/shop/nope --node n1",
		"graph svc/shop/nope", "timeline svc/shop/nope --since -5m", "--tls-cert-file x pods", "--tls-key-file x pods", "--kubeconfig x pods",
		"config watch nope --node n1", "config get --all --own --node n1", "config get web --node n1", "config get --all --via etcd --node n1", "config apply --node n1", "config diff --node n1",
	} {
		if _, _, err := run(t, append(flags, strings.Fields(args)...)...); ExitCode(err) != exitUsage {
			t.Errorf("%s: exit code %d, %v", args, ExitCode(err), err)
		}
	}
	for _, args := range []string{"explain nope", "explain pod/nope", "explain node/nope", "explain nope -n shop", "timeline nope", "timeline svc/shop/nope", "timeline svc/shop/nope --since -5m", "graph svc/shop/nope --node n3", "graph svc/shop/nope", "values nope"} {
		if _, _, err := run(t, append(append(flags, "--agent", "n3=unix://"+socket+".none"), strings.Fields(args)...)...); ExitCode(err) != 1 {
			t.Errorf("%s, with a silent agent: exit code %d, %v", args, ExitCode(err), err)
		}
	}
}

// A service's graph is drawn for the node with its values; a service without values is reported
// like other unknown names.
func TestGraphOfServiceThatNobodyHas(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"graph svc/shop/nope", "no node has values of service shop/nope"},
		{"timeline svc/shop/nope --since -5m", "no node has, or had in its history, values of service shop/nope"},
	} {
		if _, errOut, err := run(t, append(twoNodes(t), strings.Fields(c.args)...)...); err == nil || err.Error() != c.want || errOut != "" {
			t.Errorf("%s: %v %s", c.args, err, errOut)
		}
	}
}
