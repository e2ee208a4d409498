package main

import (
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
)

// Connects with a client certificate to an agent that requires one.
func TestAgentOverTLS(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority, err := pki.NewAuthority("agents", now)
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.IssueServer([]string{"agent"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.IssueClient("calico-routes", now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ca, cert, key := file("ca.crt", authority.Pair().Cert), file("client.crt", client.Cert), file("client.key", client.Key)

	pair, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	agent := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: authority.Pool(), ClientAuth: tls.RequireAndVerifyClientCert})
	config, err := agentTLS{ca, cert, key}.config()
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName = "127.0.0.1" // the host in the address
	served := make(chan error, 1)
	go func() { served <- agent.HandshakeContext(t.Context()) }()
	if err := tls.Client(b, config).HandshakeContext(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("the agent says: %v", err)
	}
	if got := agent.ConnectionState().PeerCertificates; len(got) == 0 || got[0].Subject.CommonName != "calico-routes" {
		t.Errorf("the agent sees %v", got)
	}

	if config, err := (agentTLS{}).config(); config != nil || err != nil {
		t.Errorf("without files: %v, %v", config, err)
	}
	for files, want := range map[agentTLS]string{
		{ca: "/none"}:            "--agent-ca-file: open /none",
		{ca: key}:                "contains no PEM certificate",
		{ca: ca, cert: cert}:     "require each other: set both",
		{cert: cert, key: ca}:    "--agent-cert-file and --agent-key-file: ",
		{cert: cert, key: "/no"}: "--agent-cert-file and --agent-key-file: ",
	} {
		if _, err := files.config(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", files, err, want)
		}
	}
}
