package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
