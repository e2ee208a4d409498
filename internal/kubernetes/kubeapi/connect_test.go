package kubeapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestClientNeedsAClusterAndSaysHowToNameIt(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad"), filepath.Join(dir, "good")
	for file, text := range map[string]string{
		bad: "clusters: 7\n",
		good: "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
			"contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {token: t}}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for kubeconfig, want := range map[string]string{
		"":                            "this is no pod of a cluster: name a kubeconfig file",
		bad:                           "kubeconfig " + bad + ": ",
		filepath.Join(dir, "missing"): "no such file",
	} {
		if _, err := NewClient(kubeconfig, "", "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", kubeconfig, err, want)
		}
	}
	for _, kubeconfig := range []string{good, good + ":" + filepath.Join(dir, "missing")} {
		if _, err := NewClient(kubeconfig, "", "x"); err != nil {
			t.Errorf("%s: %v", kubeconfig, err)
		}
	}
}

func TestAPIServerIsWhereTheSettingSays(t *testing.T) {
	for server, want := range map[string]string{
		"192.168.16.254:6443":          "https://192.168.16.254:6443",
		"https://[fd00::1]:6443/":      "https://[fd00::1]:6443",
		"https://api.example.com:6443": "https://api.example.com:6443",
		"192.168.16.254":               "",
		"http://192.168.16.254:80":     "",
		"https://192.168.16.254":       "",
		"https://192.168.16.254:443/x": "",
	} {
		got, err := serverURL(server)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", server, got, err, want)
		}
	}
}

func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		fails   bool
	}{
		"ready":       {func(http.ResponseWriter, *http.Request) {}, false},
		"refuses":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, false},
		"not ready":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, true},
		"hangs":       {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true},
		"breaks down": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan string, 20)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.URL.Path
				test.handler(w, r)
			}))
			defer server.Close()
			client, err := newClient(&rest.Config{Host: server.URL, Transport: &http.Transport{DisableKeepAlives: true}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if name == "hangs" {
				go func() { <-asked; cancel() }()
			}
			if err := client.Probe(ctx); (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			if name != "hangs" && <-asked != "/readyz" {
				t.Error("something else was asked")
			}
		})
	}
}
