package ctl

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
)

// All commands that ask an agent at https://HOST:PORT send the client's certificate and verify the
// agent's.
func TestAllCommandsUseCertificates(t *testing.T) {
	authority := listenertest.NewAuthority(t)
	cert, key := authority.Issue("server")
	l, err := listener.Options{CertFile: cert, KeyFile: key, ClientCAFile: authority.CAFile()}.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 1 && r.TLS.PeerCertificates[0].Subject.CommonName == "operator" {
			asked.Add(1)
		}
		http.NotFound(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	defer func() { server.Close(); <-done }()

	clientCert, clientKey := authority.Issue("operator", "contiv:read")
	agent := []string{"--agent", "node1=https://" + l.Addr().String()}
	trusting := append(agent, "--tls-ca-file", authority.CAFile())
	change := filepath.Join(t.TempDir(), "change.yaml")
	if err := os.WriteFile(change, []byte("config/vpp/v2/interfaces/x: null\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, command := range []string{
		"nodes", "nodeconfig", "pods", "ipam", "interfaces", "drops", "services", "policies", "denials", "status", "why a b", "events", "events --seq 1", "txns", "txns 1",
		"values", "values x", "dump", "dump x", "explain x", "timeline x", "diff --from -1m", "graph", "resync", "config get --all", "vppcli node1 show version",
		"plan -f " + change, "report --file " + filepath.Join(t.TempDir(), "r.tgz"),
	} {
		tried[strings.Fields(command)[0]] = true
		before := asked.Load()
		args := append(append(trusting[:4:4], "--tls-cert-file", clientCert, "--tls-key-file", clientKey), strings.Fields(command)...)
		_ = execute(t, t.Context(), io.Discard, args...) // the agent's answer does not matter
		if asked.Load() == before {
			t.Errorf("%s does not show the certificate", command)
		}
	}
	for _, c := range Command("contivctl", io.Discard, io.Discard).Commands() {
		if alone := []string{"version", "models", "check-config", "completion"}; !tried[c.Name()] && !slices.Contains(alone, c.Name()) {
			t.Errorf("%s is not tried", c.Name())
		}
	}
	for _, without := range [][]string{agent, trusting} {
		before := asked.Load()
		if err := execute(t, t.Context(), io.Discard, append(without[:len(without):len(without)], "pods")...); err == nil || asked.Load() != before {
			t.Errorf("%v: %v", without, err)
		}
	}
	if err := execute(t, t.Context(), io.Discard, append(trusting[:4:4], "--tls-cert-file", clientCert, "pods")...); err == nil || !strings.Contains(err.Error(), "set both") {
		t.Errorf("a certificate without its key: %v", err)
	}
}
