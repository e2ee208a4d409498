package main

import (
	"path/filepath"
	"testing"
	"time"

	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/models"
)

func TestClientsKnowWhetherThereAreLimits(t *testing.T) {
	certs := certificates(t)
	file := func(name string) string { return filepath.Join(certs, name) }
	with := []string{"--cert-file", file("server.pem"), "--key-file", file("server-key.pem"), "--client-ca-file", file("ca.pem")}
	for name, test := range map[string]struct {
		scheme string
		args   []string
		none   bool
	}{
		"plain text":              {"http", nil, true},
		"certificates":            {"https", with, true},
		"certificates of users":   {"https", append(with, "--users"), false},
		"users with other limits": {"https", append(with, "--users", "--user-mib", "16", "--user-keys", "100", "--user-leases", "1", "--user-watches", "10"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startWith(t, filepath.Join(t.TempDir(), "data"), append([]string{"--listen-client", test.scheme + "://127.0.0.1:0", "--unsafe-no-fsync"}, test.args...)...)
			c := etcd.Config{Endpoints: []string{p.endpoint}, OperationTimeout: config.Duration(5 * time.Second)}
			if test.scheme == "https" {
				c.ServerName, c.CAFile, c.CertFile, c.KeyFile = "contiv-server", file("ca.pem"), file("client.pem"), file("client-key.pem")
			}
			s, err := etcd.New(c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if unlimited, refused := s.Limits(t.Context()); unlimited != test.none || refused != "" {
				t.Errorf("unlimited %v, refused %q, want unlimited %v", unlimited, refused, test.none)
			}
		})
	}
	if etcd.LimitsHeader != etcdserver.LimitsHeader || etcd.RefusedHeader != etcdserver.RefusedHeader {
		t.Error("client and server have different headers")
	}
}

func TestOwners(t *testing.T) {
	for key, want := range map[string]string{
		models.NodePrefix("node1") + "config/x": access.NodeUser + "node1",
		models.NodePrefix("node1"):              access.NodeUser + "node1",
		models.KSRPrefix + "k8s/node/node1":     "",
		models.AgentPrefix + "node1":            "",
		"/elsewhere/node1/x":                    "",
	} {
		if got := ownerOf(key); got != want {
			t.Errorf("%s is of %q, want %q", key, got, want)
		}
	}
}
