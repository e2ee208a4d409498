package integration

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// etcd authenticates nodes by certificate, and each node can write only its own keys.
func TestEtcdKnowsTheNodes(t *testing.T) {
	require(t)
	l := labtest.Up(t, options("tls"))
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
		t.Error("a certificate of an unknown node was issued")
	}
	if err := withoutCertificate(t, l, first.Netns); err == nil {
		t.Error("etcd admits a pod that has no certificate")
	}
}

func withoutCertificate(t *testing.T, l *lab.Lab, netns string) error {
	t.Helper()
	return lab.InNetns(lab.NetnsPath(netns), func() error {
		c, err := tls.Dial("tcp", net.JoinHostPort(lab.RouterAddress.Addr().String(), "32379"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Read(make([]byte, 1)) // TLS 1.3 reports a rejected client certificate after the handshake
		return err
	})
}

// Credentials give access only to the selected nodes, with contivctl and etcdctl.
func TestCredentialsOfALab(t *testing.T) {
	l := require(t)
	dir := filepath.Join(t.TempDir(), "ops")
	o := newOperator(t, l, "node1")
	o.run("credentials ops --node node1 --dir "+dir, "etcdctl --endpoints https://192.168.16.254:32379 --cacert "+dir+"/ca.pem")
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("model: vpp.interfaces\nvalue: {name: ops, type: SOFTWARE_LOOPBACK, enabled: true}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := "ctl config apply --via etcd --etcd-config " + dir + "/etcd.conf -f " + values + " --node "
	o.run(apply+"node1", "CONFIGURED")
	o.run("exec node2 -- etcdctl --endpoints https://192.168.16.254:32379 --cacert "+dir+"/ca.pem --cert "+dir+"/client.pem --key "+dir+"/client.pem "+
		"del /vnf-agent/node1/config/vpp/v2/interfaces/ops", "1")
	refused := func(command, want string) {
		t.Helper()
		if out, err := contivLab(t, l, strings.Fields(command)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("contiv-lab %s: error %v, no %q in:\n%s", command, err, want, out)
		}
	}
	refused(apply+"node2", "permission denied")
	refused("credentials ops --dir "+dir, "set the nodes that it may configure")
	o.run("credentials ops --node node2 --dir "+dir, "Credentials written")
	await.That(t, "ops may no longer configure node1", func() error {
		if out, err := contivLab(t, l, strings.Fields(apply+"node1")...); err == nil || !strings.Contains(out, "permission denied") {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
}

// Plain text requires an explicit option.
func TestLabWithPlainText(t *testing.T) {
	require(t)
	opts := options("pt")
	opts.PlainText = true
	l := labtest.Up(t, opts)
	if out, err := contivLab(t, l, "exec", "node1", "--", "etcdctl", "--endpoints", "http://192.168.16.254:32379", "put", "/vnf-agent/node2/test", "{}"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := contivLab(t, l, "credentials", "ops", "--node", "node1", "--dir", t.TempDir()); err == nil || !strings.Contains(out, "--plain-text") {
		t.Errorf("credentials: %v, %s", err, out)
	}
}
