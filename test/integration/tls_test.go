package integration

import (
	"errors"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// In a lab with TLS, etcd knows the nodes by their certificates: each writes its own keys, and no others.
func TestEtcdKnowsTheNodes(t *testing.T) {
	require(t)
	opts := options("tls")
	opts.TLS = true
	l := labtest.Up(t, opts)
	first := pod(t, l, "first", "node1")
	if err := l.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.StartEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.AddNode(t.Context(), "node3"); err != nil {
		t.Fatal(err)
	}
	requireConnected(t, l, first, pod(t, l, "third", "node3"))
	for _, user := range []string{"node:node3", "root"} {
		etcd, err := l.EtcdAs(user)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { etcd.Close() })
		for key, allowed := range map[string]bool{"/vnf-agent/node3/test": true, "/vnf-agent/node1/test": user == "root", "/else": user == "root"} {
			if _, err := etcd.Put(t.Context(), key, "{}"); (err == nil) != allowed || !allowed && !errors.Is(err, rpctypes.ErrPermissionDenied) {
				t.Errorf("%s writes %s: %v", user, key, err)
			}
		}
		if r, err := etcd.Get(t.Context(), "/vnf-agent/contiv-ksr/k8s/node/node1"); err != nil || len(r.Kvs) != 1 {
			t.Errorf("%s reads node1: %v %v", user, r, err)
		}
	}
	if _, err := l.EtcdAs("node:nobody"); err == nil {
		t.Error("there is a certificate of a node that there is not")
	}
}

func TestTLSNeedsKSR(t *testing.T) {
	require(t)
	opts := options("tls")
	opts.TLS, opts.Calico = true, true
	if _, err := lab.Up(t.Context(), opts); err == nil {
		t.Error("a lab without KSR would have nobody who tells etcd of its users")
	}
}
