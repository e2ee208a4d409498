package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/test/await"
	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type cluster struct {
	t         *testing.T
	authority *pki.Authority
	endpoint  string
	root      *etcd.Store
	options   etcdserver.Options
	server    *etcdserver.Server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := newServer(t)
	c.keep()
	return c
}

func newServer(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t}
	var err error
	if c.authority, err = pki.NewAuthority("contiv-etcd-ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	server, err := c.authority.IssueServer([]string{"contiv-etcd"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c.options = etcdserver.Options{
		DataDir: filepath.Join(dir, "data"), ClientURLs: []string{"https://127.0.0.1:0"}, PeerURL: "http://127.0.0.1:0",
		CertFile: file("server.pem", server.Cert), KeyFile: file("server-key.pem", server.Key), ClientCAFile: file("ca.pem", c.authority.Pair().Cert),
		Users: true, UnsafeNoSync: true, Logger: slog.New(slog.DiscardHandler),
	}
	c.start()
	t.Cleanup(func() { c.server.Close() })
	c.endpoint = c.server.Endpoints()[0]
	c.root = c.as(access.Root)
	return c
}

func (c *cluster) keep() { c.keepThrough(c.root) }

func (c *cluster) keepThrough(ids store.Broker) {
	k := access.New(c.root, slog.New(slog.DiscardHandler))
	k.SetLateAfter(50 * time.Millisecond)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := k.Run(ctx, ids); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(func() { stop(); wg.Wait() })
}

func (c *cluster) start() {
	c.t.Helper()
	var err error
	if c.server, err = etcdserver.Start(c.t.Context(), c.options); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) wipe() {
	c.t.Helper()
	c.server.Close()
	if err := os.RemoveAll(c.options.DataDir); err != nil {
		c.t.Fatal(err)
	}
	c.options.ClientURLs = []string{c.endpoint}
	c.start()
}

func (c *cluster) as(user string) *etcd.Store {
	c.t.Helper()
	pair, err := c.authority.IssueClient(user, time.Now(), time.Hour)
	if err != nil {
		c.t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		c.t.Fatal(err)
	}
	s, err := etcd.New(etcd.Config{
		Endpoints: []string{c.endpoint}, ServerName: "contiv-etcd", OperationTimeout: config.Duration(30 * time.Second),
		Credentials: &etcd.Credentials{
			Certificate: func() (*tls.Certificate, error) { return &cert, nil },
			Authorities: func() (*x509.CertPool, error) { return c.authority.Pool(), nil },
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { s.Close() })
	return s
}

func (c *cluster) put(key, value string) {
	c.t.Helper()
	if err := c.root.Put(c.t.Context(), key, []byte(value)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) leave(node, id string) {
	c.t.Helper()
	gone := func(key string) store.Change { return store.Change{KV: store.KV{Key: key}, Deleted: true} }
	if err := c.root.Batch(c.t.Context(), []store.Change{gone(ids + id), gone(nodes + node)}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) awaitID(node, id string) {
	c.t.Helper()
	await.That(c.t, node+" has ID "+id, func() error {
		kv, ok, err := c.root.Get(c.t.Context(), ids+id)
		if err == nil && (!ok || !strings.Contains(string(kv.Value), `"`+node+`"`)) {
			err = fmt.Errorf("ID %s: %s", id, kv.Value)
		}
		return err
	})
}

func (c *cluster) mayRead(node string) {
	c.t.Helper()
	s := c.as(access.NodeUser + node)
	await.That(c.t, node+" may read reflected objects", func() error {
		_, _, err := s.List(c.t.Context(), "/vnf-agent/contiv-ksr/")
		return err
	})
}

const (
	nodes = "/vnf-agent/contiv-ksr/k8s/node/"
	ids   = "/vnf-agent/contiv-ksr/allocatedIDs/"
)

func denied(err error) bool { return errors.Is(err, rpctypes.ErrPermissionDenied) }

func TestIDsOutliveTheData(t *testing.T) {
	c := newCluster(t)
	for i, node := range []string{"node3", "node2", "node1"} {
		c.put(nodes+node, "{}")
		c.awaitID(node, strconv.Itoa(i+1))
	}
	c.mayRead("node1")
	before, err := c.root.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.wipe()
	stranger := c.as(access.NodeUser + "node1")
	await.That(t, "node1 learns the revision of an etcd that does not know it", func() error {
		now, err := stranger.Revision(t.Context())
		if err == nil && now >= before {
			err = fmt.Errorf("revision %d, before %d", now, before)
		}
		return err
	})
	if _, _, err := stranger.List(t.Context(), nodes); !errors.Is(err, store.ErrDenied) || !denied(err) {
		t.Errorf("node1 reads, before it is known: %v", err)
	}
	if _, err := stranger.Watch(t.Context(), 0, nodes); !errors.Is(err, store.ErrDenied) {
		t.Errorf("node1 watches, before it is known: %v", err)
	}
	c.put(nodes+"node0", "{}")
	c.put(nodes+"node1", "{}")
	c.put(nodes+"node2", "{}")
	c.awaitID("node0", "4")
	c.awaitID("node1", "3")
	c.awaitID("node2", "2")
	c.put(nodes+"node3", "{}")
	c.awaitID("node3", "1")
}

// If etcd loses its data during a read, all nodes seem to have left. They still get their IDs back.
func TestIDsOutliveTheDataThatIsBeingRead(t *testing.T) {
	c := newServer(t)
	k := access.New(c.root, slog.New(slog.DiscardHandler))
	for i, node := range []string{"node1", "node2"} {
		c.put(nodes+node, "{}")
		if err := k.Reconcile(t.Context(), c.root); err != nil {
			t.Fatal(err)
		}
		c.awaitID(node, strconv.Itoa(i+1))
	}
	c.wipe()
	c.put(nodes+"node0", "{}")
	if err := k.Reconcile(t.Context(), c.root); err == nil {
		t.Error("the loss is not noticed")
	}
	k.Forget()
	if err := k.Reconcile(t.Context(), c.root); err != nil {
		t.Fatal(err)
	}
	c.awaitID("node0", "3")
	c.put(nodes+"node2", "{}")
	if err := k.Reconcile(t.Context(), c.root); err != nil {
		t.Fatal(err)
	}
	c.awaitID("node2", "2")
}

func TestNodesWriteTheirOwn(t *testing.T) {
	c := newCluster(t)
	c.put("/vnf-agent/node2/config/secret", "x")
	c.put(nodes+"node1", "{}")
	c.put(nodes+"node2", "{}")
	c.awaitID("node1", "1")
	c.awaitID("node2", "2")
	s := c.as(access.NodeUser + "node1")
	await.That(t, "node1 may read reflected objects", func() error {
		_, _, err := s.List(t.Context(), "/vnf-agent/contiv-ksr/")
		return err
	})
	for _, key := range []string{"/vnf-agent/node1/status/x", "/vnf-agent/node1/check/agent", ids + "1"} {
		if err := s.Put(t.Context(), key, []byte(`{"id":1,"name":"node1"}`)); err != nil {
			t.Errorf("own key %s: %v", key, err)
		}
	}
	for _, key := range []string{"/vnf-agent/node2/config/x", "/vnf-agent/node10/config/x", ids + "2", ids + "3", nodes + "node1", "/x", access.ClientPrefix + "x", "/contiv-ksr/election/x"} {
		if err := s.Put(t.Context(), key, []byte("x")); !denied(err) {
			t.Errorf("write %s: %v", key, err)
		}
		if err := s.Delete(t.Context(), key); !denied(err) {
			t.Errorf("delete %s: %v", key, err)
		}
	}
	for _, prefix := range []string{"/vnf-agent/", "/vnf-agent/node2/", "/contiv-ksr/", ""} {
		if _, _, err := s.List(t.Context(), prefix); !denied(err) {
			t.Errorf("read %s: %v", prefix, err)
		}
	}
	if _, err := s.Client().UserAdd(t.Context(), "x", "y"); !denied(err) {
		t.Errorf("add a user: %v", err)
	}
	if _, err := s.Client().AuthDisable(t.Context()); !denied(err) {
		t.Errorf("turn users off: %v", err)
	}
}

func TestUsersComeAndGo(t *testing.T) {
	c := newCluster(t)
	c.put(nodes+"node1", "{}")
	c.put(nodes+"node2", "{}")
	c.awaitID("node2", "2")
	s := c.as(access.NodeUser + "node2")
	await.That(t, "node2 may write", func() error { return s.Put(t.Context(), "/vnf-agent/node2/x", nil) })
	if err := c.as(access.NodeUser+"node3").Put(t.Context(), "/vnf-agent/node3/x", nil); !denied(err) {
		t.Errorf("node3, which is unknown: %v", err)
	}
	c.leave("node2", "2")
	await.That(t, "node2 may write no more", func() error {
		if err := s.Put(t.Context(), "/vnf-agent/node2/x", nil); !denied(err) {
			return fmt.Errorf("write: %v", err)
		}
		return nil
	})
	c.put(nodes+"node0", "{}")
	c.awaitID("node0", "2")
	c.put(nodes+"node2", "{}")
	c.awaitID("node2", "3")
	await.That(t, "node2 may write again", func() error { return s.Put(t.Context(), ids+"3", []byte(`{"id":3,"name":"node2"}`)) })
	if err := s.Put(t.Context(), ids+"2", nil); !denied(err) {
		t.Errorf("its former ID: %v", err)
	}
	// A node that returns gets its ID back unless another node has it.
	c.leave("node1", "1")
	c.leave("node2", "3")
	await.That(t, "both are gone", func() error {
		if err := s.Put(t.Context(), "/vnf-agent/node2/x", nil); !denied(err) {
			return fmt.Errorf("write: %v", err)
		}
		return nil
	})
	c.put(nodes+"node2", "{}")
	c.awaitID("node2", "3")
}

// failsOnce rejects the first ID of node2, and calls late before it grants the second.
type failsOnce struct {
	store.Broker
	failed bool
	late   func() error
}

func (f *failsOnce) PutIfNotExists(ctx context.Context, key string, value []byte) (bool, error) {
	if strings.Contains(string(value), "node2") {
		if !f.failed {
			f.failed = true
			return false, errors.New("a failure")
		}
		if err := f.late(); err != nil {
			return false, err
		}
	}
	return f.Broker.PutIfNotExists(ctx, key, value)
}

func TestLateChangesOfUsersDoNotStay(t *testing.T) {
	c := newServer(t)
	c.put(nodes+"node1", "{}")
	c.keepThrough(&failsOnce{Broker: c.root, late: func() error {
		_, err := c.root.Client().UserDelete(t.Context(), access.NodeUser+"node1")
		return err
	}})
	c.awaitID("node1", "1")
	c.mayRead("node1")
	c.put(nodes+"node2", "{}")
	c.awaitID("node2", "2")
	c.mayRead("node2")
	c.mayRead("node1")
}

func TestNodesKeepTheirIDs(t *testing.T) {
	c := newCluster(t)
	for i, node := range []string{"node1", "node2"} {
		c.put(nodes+node, "{}")
		c.awaitID(node, fmt.Sprint(i+1))
	}
	node1, node2 := c.as(access.NodeUser+"node1"), c.as(access.NodeUser+"node2")
	await.That(t, "node1 may write", func() error { return node1.Put(t.Context(), ids+"1", []byte(`{"id":1,"name":"node1"}`)) })
	await.That(t, "node2 may write", func() error { return node2.Put(t.Context(), ids+"2", []byte(`{"id":2,"name":"node2"}`)) })
	for _, record := range []string{`{"id":1,"name":"node2","ip_addresses":["192.168.16.1/24"]}`, `{"id":2,"name":"node1"}`, `{"id":1}`, "garbage", ""} {
		if err := node1.Put(t.Context(), ids+"1", []byte(record)); err != nil {
			t.Fatalf("after %s: %v", record, err)
		}
		c.awaitID("node1", "1")
		c.put(nodes+"node3", "{}")
		c.awaitID("node3", "3")
		if err := node2.Put(t.Context(), ids+"2", []byte(`{"id":2,"name":"node2"}`)); err != nil {
			t.Errorf("after %s, node2: %v", record, err)
		}
		if err := node2.Put(t.Context(), ids+"1", nil); !denied(err) {
			t.Errorf("after %s, node2 writes the record of node1: %v", record, err)
		}
		c.leave("node3", "3")
	}
}

// An ID of a missing node is free: the node left during the assignment, or an earlier version kept
// the ID.
func TestIDsOfNodesThatAreNotThere(t *testing.T) {
	c := newServer(t)
	c.put(ids+"1", `{"id":1,"name":"gone","ip_addresses":["192.168.16.1/24"]}`)
	c.put(ids+"2", `{"id":2,"name":"node2"}`)
	c.put(nodes+"node2", "{}")
	c.keep()
	c.put(nodes+"node3", "{}")
	c.awaitID("node3", "1")
	c.awaitID("node2", "2")
	if err := c.root.Delete(t.Context(), nodes+"node3"); err != nil {
		t.Fatal(err)
	}
	await.That(t, "ID 1 is free again", func() error {
		kv, exists, err := c.root.Get(t.Context(), ids+"1")
		if err == nil && exists {
			err = fmt.Errorf("it belongs to %s", kv.Value)
		}
		return err
	})
	c.awaitID("node2", "2")
}

func TestClientsConfigureTheirNodes(t *testing.T) {
	c := newCluster(t)
	c.put(nodes+"node1", "{}")
	c.put(access.ClientPrefix+"bad", "{")
	c.put(access.ClientPrefix+"ops", string(access.Client{Nodes: []string{"node1"}}.Marshal()))
	c.put(access.ClientPrefix+"all", string(access.Client{Nodes: []string{access.AllNodes}}.Marshal()))
	ops, all := c.as(access.ClientUser+"ops"), c.as(access.ClientUser+"all")
	const own, other, later = "/vnf-agent/node1/config/x", "/vnf-agent/node2/config/x", "/vnf-agent/zz/config/x"
	await.That(t, "ops and all may write", func() error {
		return errors.Join(ops.Put(t.Context(), own, nil), all.Put(t.Context(), own, nil), all.Put(t.Context(), other, nil), all.Put(t.Context(), later, nil))
	})
	if _, _, err := ops.List(t.Context(), nodes); err != nil {
		t.Errorf("the list of nodes: %v", err)
	}
	for _, key := range []string{other, ids + "1", nodes + "node1"} {
		if err := ops.Put(t.Context(), key, nil); !denied(err) {
			t.Errorf("ops writes %s: %v", key, err)
		}
	}
	for _, key := range []string{ids + "1", nodes + "node1", access.ClientPrefix + "all"} {
		if err := all.Put(t.Context(), key, nil); !denied(err) {
			t.Errorf("all writes %s: %v", key, err)
		}
	}
	c.put(access.ClientPrefix+"ops", string(access.Client{Nodes: []string{"node2"}}.Marshal()))
	await.That(t, "ops writes another node", func() error {
		if err := ops.Put(t.Context(), own, nil); !denied(err) {
			return fmt.Errorf("node1: %v", err)
		}
		return ops.Put(t.Context(), other, nil)
	})
	if err := c.root.Delete(t.Context(), access.ClientPrefix+"ops"); err != nil {
		t.Fatal(err)
	}
	await.That(t, "ops writes nothing", func() error {
		if err := ops.Put(t.Context(), other, nil); !denied(err) {
			return fmt.Errorf("node2: %v", err)
		}
		return nil
	})
}

// After an interruption between any two calls, the next keeper completes the users and removes old
// permissions.
func TestUsersThatAreHalfMade(t *testing.T) {
	c := newServer(t)
	node1, node2 := "/vnf-agent/node1/", "/vnf-agent/node2/"
	auth, ctx := c.root.Client(), t.Context()
	role := func(name string, may map[string]authpb.Permission_Type) {
		_, err := auth.RoleAdd(ctx, name)
		for key, kind := range may {
			end := ""
			if strings.HasSuffix(key, "/") {
				end = clientv3.GetPrefixRangeEnd(key)
			}
			_, grantErr := auth.RoleGrantPermission(ctx, name, key, end, clientv3.PermissionType(kind))
			err = errors.Join(err, grantErr)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	role(access.ClientUser+"changed", map[string]authpb.Permission_Type{node1: clientv3.PermReadWrite})
	role(access.ClientUser+"gone", map[string]authpb.Permission_Type{node1: clientv3.PermReadWrite})
	role(access.NodeUser+"node1", map[string]authpb.Permission_Type{"/vnf-agent/contiv-ksr/": clientv3.PermRead, node1: clientv3.PermReadWrite, ids + "1": clientv3.PermReadWrite})
	if _, err := auth.UserAddWithOptions(ctx, access.NodeUser+"node1", "", &clientv3.UserAddOptions{NoPassword: true}); err != nil {
		t.Fatal(err)
	}
	c.put(nodes+"node1", "{}")
	c.put(ids+"1", `{"id":1,"name":"node1"}`)
	c.put(access.ClientPrefix+"changed", string(access.Client{Nodes: []string{"node2"}}.Marshal()))
	c.keep()

	changed := c.as(access.ClientUser + "changed")
	await.That(t, "changed writes node2", func() error { return changed.Put(ctx, node2+"x", nil) })
	if err := changed.Put(ctx, node1+"x", nil); !denied(err) {
		t.Errorf("changed writes node1: %v", err)
	}
	await.That(t, "node1 writes its own", func() error { return c.as(access.NodeUser+"node1").Put(ctx, node1+"x", nil) })
	await.That(t, "the other role is gone", func() error {
		roles, err := auth.RoleList(ctx)
		if err == nil && slices.Contains(roles.Roles, access.ClientUser+"gone") {
			err = fmt.Errorf("roles: %v", roles.Roles)
		}
		return err
	})
}

func TestCheckClient(t *testing.T) {
	for name, nodes := range map[string][]string{"": {"a"}, "a/b": {"a"}, "none": nil, "slash": {"a/b"}, "ksr": {"contiv-ksr"}, "contiv-ksr": {"a"}} {
		if access.CheckClient(name, access.Client{Nodes: nodes}) == nil {
			t.Errorf("%q %q: no error", name, nodes)
		}
	}
	if err := access.CheckClient("ops", access.Client{Nodes: []string{"a", "*"}}); err != nil {
		t.Error(err)
	}
}

func TestMaintenanceIsRoots(t *testing.T) {
	c := newCluster(t)
	node := c.as("node:node1").Client()
	if _, err := node.AlarmList(t.Context()); err != nil {
		t.Errorf("reading alarms: %v", err)
	}
	if _, err := node.AlarmDisarm(t.Context(), &clientv3.AlarmMember{MemberID: 1, Alarm: etcdserverpb.AlarmType_NOSPACE}); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("disarming alarms: %v", err)
	}
	if _, err := node.Compact(t.Context(), 1); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("compacting: %v", err)
	}
	if _, err := c.root.Client().AlarmDisarm(t.Context(), &clientv3.AlarmMember{MemberID: 1, Alarm: etcdserverpb.AlarmType_NOSPACE}); err != nil {
		t.Errorf("root: %v", err)
	}
}
