package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type cluster struct {
	t    testing.TB
	opts Options
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	s    *Server
}

func newCluster(t testing.TB, limits Limits, quota int64, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, opts: testOptions(t)}
	dir := t.TempDir()
	c.ca, c.key = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, c.ca, c.ca, c.key.Public(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	if c.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	server := c.certificate("server")
	keyDER, err := x509.MarshalECPrivateKey(server.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"ca.pem": {Type: "CERTIFICATE", Bytes: der}, "server.pem": {Type: "CERTIFICATE", Bytes: server.Certificate[0]}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.opts.ClientURLs, c.opts.Users, c.opts.Limits, c.opts.Quota = []string{"https://127.0.0.1:0"}, true, limits, quota
	c.opts.ClientCAFile, c.opts.CertFile, c.opts.KeyFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "server.pem"), filepath.Join(dir, "key.pem")
	c.opts.Owner = func(key string) string {
		if node, _, ok := strings.Cut(strings.TrimPrefix(key, "/vnf-agent/"), "/"); ok && strings.HasPrefix(key, "/vnf-agent/") && node != "contiv-ksr" {
			return "node:" + node
		}
		return ""
	}
	c.start()
	root := c.client(Root)
	for _, node := range nodes {
		c.user(root, "node:"+node, "/vnf-agent/"+node+"/", "/vnf-agent/contiv-ksr/id/"+node)
	}
	c.user(root, "client:ops", "/vnf-agent/")
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (c *cluster) start() { c.s = start(c.t, c.opts) }

func (c *cluster) restart() {
	c.t.Helper()
	c.s.Close()
	c.start()
}

func (c *cluster) certificate(name string) tls.Certificate {
	c.t.Helper()
	key := newKey(c.t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, c.ca, key.Public(), c.key)
	if err != nil {
		c.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (c *cluster) client(user string) *clientv3.Client {
	c.t.Helper()
	return c.clientAt(c.s.Endpoint(), user)
}

func (c *cluster) clientAt(endpoint, user string) *clientv3.Client {
	c.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(c.ca)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second, Context: c.t.Context(),
		TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{c.certificate(user)}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	return client
}

func (c *cluster) user(root *clientv3.Client, name string, prefixes ...string) {
	c.t.Helper()
	ctx := c.t.Context()
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	_, err := root.RoleAdd(ctx, name)
	must(err)
	for _, p := range prefixes {
		_, err = root.RoleGrantPermission(ctx, name, p, clientv3.GetPrefixRangeEnd(p), clientv3.PermissionType(clientv3.PermReadWrite))
		must(err)
	}
	_, err = root.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
	must(err)
	_, err = root.UserGrantRole(ctx, name, name)
	must(err)
}

func reports(t testing.TB, c *clientv3.Client) (limited bool, refused string) {
	t.Helper()
	var header metadata.MD
	_, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_GET}, grpc.Header(&header))
	if err != nil {
		t.Fatal(err)
	}
	return len(header.Get(LimitsHeader)) > 0, strings.Join(header.Get(RefusedHeader), "")
}

// untilRefused repeats a write until it is refused. It returns the number of successful ones.
func untilRefused(t testing.TB, most int, write func(i int) error) int {
	t.Helper()
	for i := range most {
		err := write(i)
		if status.Code(rpcError(err)) == codes.ResourceExhausted {
			return i
		}
		if err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	t.Fatalf("%d writes were not refused", most)
	return 0
}

func rpcError(err error) error {
	if e, ok := err.(rpctypes.EtcdError); ok {
		return status.Error(e.Code(), e.Error())
	}
	return err
}

// A user reaches its limit through every kind of write. Root and other users are unaffected, and a
// restart changes nothing.
func TestUsersAreLimited(t *testing.T) {
	const mib = 1 << 20
	value := strings.Repeat("x", 256<<10)
	for name, test := range map[string]struct {
		limits      Limits
		write       func(ctx context.Context, c *clientv3.Client, i int) error
		least, most int
	}{
		"bytes": {Limits{Bytes: 4 * mib}, func(ctx context.Context, c *clientv3.Client, i int) error {
			_, err := c.Put(ctx, fmt.Sprint("/vnf-agent/evil/", i), value)
			return err
		}, 14, 15},
		"older revisions": {Limits{Bytes: 4 * mib}, func(ctx context.Context, c *clientv3.Client, _ int) error {
			_, err := c.Put(ctx, "/vnf-agent/evil/same", value)
			return err
		}, 14, 15},
		"older revisions of a key of KSR": {Limits{Bytes: 4 * mib}, func(ctx context.Context, c *clientv3.Client, _ int) error {
			_, err := c.Put(ctx, "/vnf-agent/contiv-ksr/id/evil", value)
			return err
		}, 14, 15},
		"deleted at once": {Limits{Bytes: 4 * mib}, func(ctx context.Context, c *clientv3.Client, i int) error {
			_, err := c.Put(ctx, fmt.Sprint("/vnf-agent/evil/", i), value)
			if err == nil {
				_, err = c.Delete(ctx, "/vnf-agent/evil/", clientv3.WithPrefix())
			}
			return err
		}, 14, 16},
		"the same value again": {Limits{Bytes: 4 * mib}, func(ctx context.Context, c *clientv3.Client, i int) error {
			if i == 0 {
				_, err := c.Put(ctx, "/vnf-agent/evil/same", value)
				return err
			}
			_, err := c.Put(ctx, "/vnf-agent/evil/same", "", clientv3.WithIgnoreValue())
			return err
		}, 14, 17},
		"keys": {Limits{Keys: 50}, func(ctx context.Context, c *clientv3.Client, i int) error {
			_, err := c.Put(ctx, fmt.Sprint("/vnf-agent/evil/", i), "")
			return err
		}, 50, 50},
		"keys of transactions": {Limits{Keys: 50}, func(ctx context.Context, c *clientv3.Client, i int) error {
			var ops []clientv3.Op
			for j := range 5 {
				ops = append(ops, clientv3.OpPut(fmt.Sprint("/vnf-agent/evil/", i, "-", j), ""))
			}
			_, err := c.Txn(ctx).Then(clientv3.OpTxn(nil, ops, nil)).Commit()
			return err
		}, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, test.limits, 0, "evil", "good")
			root, evil, good := c.client(Root), c.client("node:evil"), c.client("node:good")
			ctx := t.Context()
			if limited, text := reports(t, good); !limited || text != "" {
				t.Errorf("at first: limited %v, refused %q", limited, text)
			}
			if n := untilRefused(t, 1000, func(i int) error { return test.write(ctx, evil, i) }); n < test.least || n > test.most {
				t.Errorf("%d writes until the limit, want %d to %d", n, test.least, test.most)
			}
			others := func() {
				t.Helper()
				for key, c := range map[string]*clientv3.Client{"/vnf-agent/good/x": good, "/vnf-agent/contiv-ksr/x": root} {
					if _, err := c.Put(ctx, key, value); err != nil {
						t.Errorf("others write %s: %v", key, err)
					}
				}
			}
			others()
			if _, text := reports(t, good); !strings.Contains(text, "node:evil") {
				t.Errorf("the report is %q", text)
			}
			c.restart()
			if strings.HasSuffix(name, "of KSR") {
				return
			}
			root, evil, good = c.client(Root), c.client("node:evil"), c.client("node:good")
			untilRefused(t, 4, func(i int) error { return test.write(ctx, evil, 1000+i) })
			others()
			if test.limits.Keys > 0 {
				if _, err := evil.Delete(ctx, "/vnf-agent/evil/0", clientv3.WithPrefix()); err != nil {
					t.Fatal(err)
				}
				await(t, "keys fit again", func() error { return test.write(ctx, evil, 0) })
			}
		})
	}
}

func TestClientsAreLimited(t *testing.T) {
	c := newCluster(t, Limits{Keys: 50}, 0, "good")
	ops, good := c.client("client:ops"), c.client("node:good")
	if n := untilRefused(t, 100, func(i int) error {
		_, err := ops.Put(t.Context(), fmt.Sprintf("/vnf-agent/no-node-%d/x", i), "")
		return err
	}); n != 50 {
		t.Errorf("%d keys, want 50", n)
	}
	if _, err := good.Put(t.Context(), "/vnf-agent/good/x", ""); err != nil {
		t.Error(err)
	}
}

func await(t testing.TB, what string, step func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = step(); err == nil {
			return
		}
	}
	t.Fatalf("not in time: %s: %v", what, err)
}

func TestLeasesAreOfTheirUser(t *testing.T) {
	c := newCluster(t, Limits{Leases: 5}, 0, "evil", "good")
	ctx := t.Context()
	good := c.client("node:good")
	empty, err := good.Grant(ctx, 600)
	if err != nil {
		t.Fatal(err)
	}
	used, err := good.Grant(ctx, 600)
	if err == nil {
		_, err = good.Put(ctx, "/vnf-agent/good/claim", "", clientv3.WithLease(used.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		good, evil, root := c.client("node:good"), c.client("node:evil"), c.client(Root)
		for _, id := range []clientv3.LeaseID{empty.ID, used.ID} {
			if _, err := evil.KeepAliveOnce(ctx, id); err == nil {
				t.Errorf("another node keeps lease %x alive", id)
			}
			if _, err := evil.Revoke(ctx, id); err == nil {
				t.Errorf("another node revokes lease %x", id)
			}
			if _, err := evil.Put(ctx, "/vnf-agent/evil/x", "", clientv3.WithLease(id)); err == nil {
				t.Errorf("another node puts a key under lease %x", id)
			}
			if _, err := evil.Txn(ctx).Else(clientv3.OpPut("/vnf-agent/evil/x", "", clientv3.WithLease(id))).Commit(); err == nil {
				t.Errorf("another node puts a key under lease %x in a transaction", id)
			}
			if _, err := good.KeepAliveOnce(ctx, id); err != nil {
				t.Errorf("its node cannot keep lease %x alive: %v", id, err)
			}
			if _, err := root.KeepAliveOnce(ctx, id); err != nil {
				t.Errorf("root cannot keep lease %x alive: %v", id, err)
			}
		}
		c.restart()
	}
	good, evil, root := c.client("node:good"), c.client("node:evil"), c.client(Root)
	if _, err := evil.Lease.Grant(ctx, 600); err != nil {
		t.Fatal(err)
	}
	if n := untilRefused(t, 100, func(int) error { _, err := evil.Grant(ctx, 600); return err }); n != 4 {
		t.Errorf("%d further leases, want 4", n)
	}
	if _, err := etcdserverpb.NewLeaseClient(evil.ActiveConnection()).LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: 600, ID: leasesOf("node:good") + 7}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a lease with the ID of another node's: %v", err)
	}
	if _, err := good.Revoke(ctx, empty.ID); err != nil {
		t.Errorf("its node cannot revoke a lease: %v", err)
	}
	if _, err := good.KeepAliveOnce(ctx, empty.ID); err != rpctypes.ErrLeaseNotFound {
		t.Errorf("a lease that is gone: %v", err)
	}

	old, err := root.Grant(ctx, 600)
	if err == nil {
		_, err = root.Put(ctx, "/vnf-agent/good/old", "", clientv3.WithLease(old.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := good.KeepAliveOnce(ctx, old.ID); err != nil {
		t.Errorf("a lease of older versions: %v", err)
	}
	if _, err := evil.KeepAliveOnce(ctx, old.ID); err == nil {
		t.Error("another node keeps a lease of older versions alive")
	}
}

// TestPermissionsHoldInTransactionsAndWatches covers what etcd up to 3.6.10 did not check.
func TestPermissionsHoldInTransactionsAndWatches(t *testing.T) {
	const own, foreign = "/vnf-agent/evil/x", "/vnf-agent/good/x"
	c := newCluster(t, Limits{}, 0, "evil", "good")
	ctx := t.Context()
	evil, root := c.client("node:evil"), c.client(Root)
	for _, key := range []string{own, foreign} {
		if _, err := root.Put(ctx, key, "value"); err != nil {
			t.Fatal(err)
		}
	}
	nested := func(op clientv3.Op) clientv3.Op { return clientv3.OpTxn(nil, []clientv3.Op{op}, nil) }
	exists := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(foreign), ">", 0)}
	for name, op := range map[string]clientv3.Op{
		"nested put":         nested(clientv3.OpPut(foreign, "forged")),
		"nested delete":      nested(clientv3.OpDelete(foreign)),
		"nested get":         nested(clientv3.OpGet(foreign)),
		"nested comparison":  clientv3.OpTxn(exists, nil, nil),
		"nested else branch": clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpGet(foreign)}),
		"nested twice":       nested(nested(clientv3.OpDelete(foreign))),
		"get":                clientv3.OpGet(foreign),
		"previous value":     clientv3.OpPut(foreign, "forged", clientv3.WithPrevKV()),
	} {
		for branch, txn := range map[string]clientv3.Txn{"Then": evil.Txn(ctx).Then(op), "Else": evil.Txn(ctx).Else(op)} {
			if _, err := txn.Commit(); err != rpctypes.ErrPermissionDenied {
				t.Errorf("%s in %s: %v", name, branch, err)
			}
		}
	}
	if r, err := root.Get(ctx, foreign); err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "value" {
		t.Errorf("the key afterwards: %v, %v", r, err)
	}
	if _, err := evil.Txn(ctx).Then(nested(clientv3.OpPut(own, "new"))).Commit(); err != nil {
		t.Errorf("own key: %v", err)
	}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range evil.Watch(watch, own, clientv3.WithFromKey(), clientv3.WithRev(1)) {
		if len(r.Events) > 0 || r.Err() == nil {
			t.Errorf("a watch of all keys from an own key on: %v, %v", r.Events, r.Err())
			break
		}
	}
}

func TestWatchesAreLimited(t *testing.T) {
	c := newCluster(t, Limits{Watches: 10}, 0, "evil", "good")
	evil, good := c.client("node:evil"), c.client("node:good")
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		refused := 0
		for range 20 {
			for response := range evil.Watch(metadata.AppendToOutgoingContext(ctx, "n", fmt.Sprint(time.Now().UnixNano())), "/vnf-agent/evil/", clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
				if response.Err() != nil {
					refused++
				}
				break
			}
		}
		if refused != 15 { // a stream and its watcher count as two
			t.Errorf("%d of 20 watches were refused, want 15", refused)
		}
		created := <-good.Watch(t.Context(), "/vnf-agent/good/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if !created.Created {
			t.Errorf("another node's watch: %v", created.Err())
		}
		cancel()
		await(t, "watches that ended are not counted", func() error {
			c.s.limits.ledger.mu.Lock()
			defer c.s.limits.ledger.mu.Unlock()
			if n := c.s.limits.ledger.account("node:evil").watches; n != 0 {
				return fmt.Errorf("%d are counted", n)
			}
			return nil
		})
	}
}

// In a nearly full etcd, the largest writers are refused and named. Root and small writers continue
// until etcd is full. Afterwards, refused writers can write again.
func TestLargestWriterIsRefusedFirst(t *testing.T) {
	const quota = 256 << 20
	c := newCluster(t, Limits{Bytes: quota}, quota, "evil", "large", "good")
	ctx := t.Context()
	root, evil, large, good := c.client(Root), c.client("node:evil"), c.client("node:large"), c.client("node:good")
	value := string(bytes.Repeat([]byte("x"), 512<<10))
	for i := range 20 {
		if _, err := large.Put(ctx, fmt.Sprint("/vnf-agent/large/", i), value); err != nil {
			t.Fatal(err)
		}
	}
	n := untilRefused(t, 1000, func(i int) error {
		_, err := evil.Put(ctx, fmt.Sprint("/vnf-agent/evil/", i), value)
		return err
	})
	if n < 300 {
		t.Errorf("the largest was refused after %d writes", n)
	}
	if _, text := reports(t, good); !strings.Contains(text, "node:evil") || !strings.Contains(text, "nearly full") {
		t.Errorf("the report is %q", text)
	}
	for i := range 5 {
		for key, c := range map[string]*clientv3.Client{"/vnf-agent/large/more": large, "/vnf-agent/good/x": good, "/vnf-agent/contiv-ksr/x": root} {
			if _, err := c.Put(ctx, key, strings.Repeat("x", 64<<10)); err != nil {
				t.Errorf("write %d of %s: %v", i, key, err)
			}
		}
	}
	if _, err := evil.Delete(ctx, "/vnf-agent/evil/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if err := c.s.forgetRevisions(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, "the writer is not refused any more", func() error { _, err := evil.Put(ctx, "/vnf-agent/evil/x", value); return err })
}

func TestAccountsAgreeWithTheStore(t *testing.T) {
	c := newCluster(t, Limits{}, 0, "a", "b")
	ctx := t.Context()
	var writers sync.WaitGroup
	for _, user := range []string{Root, "node:a", "node:b", "client:ops"} {
		client := c.client(user)
		writers.Go(func() {
			for i := range 200 {
				key := fmt.Sprintf("/vnf-agent/%s/%d", []string{"a", "b"}[i%2], i%7)
				if node, ok := strings.CutPrefix(user, "node:"); ok {
					key = fmt.Sprintf("/vnf-agent/%s/%d", node, i%7)
				}
				var err error
				if i%5 == 4 {
					_, err = client.Delete(ctx, key)
				} else {
					_, err = client.Put(ctx, key, strings.Repeat("x", i))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	l, root := c.s.limits.ledger, c.client(Root)
	await(t, "the counts match the existing keys", func() error {
		got, err := root.Get(ctx, "/vnf-agent/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		var bytes int64
		for _, kv := range got.Kvs {
			bytes += sizeOf(kv.Key, kv.Value)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		keys, kept := 0, int64(0)
		for _, a := range l.accounts {
			keys, kept = keys+a.keys, kept+a.kept
		}
		if keys != len(got.Kvs) || kept != bytes {
			return fmt.Errorf("%d keys and %d bytes are counted, %d and %d exist", keys, kept, len(got.Kvs), bytes)
		}
		return nil
	})
}

// The watch may report a write and the deletion of its key before the call of the writer is recorded.
func TestWriteThatIsRecordedAfterItsDeletion(t *testing.T) {
	owner := func(key string) string { return map[bool]string{true: "node:a"}[strings.HasPrefix(key, "/a/")] }
	l := newLedger(Limits{Bytes: 1000, Keys: 10}, 1<<40, time.Hour, owner, func() int64 { return 0 })
	l.put("", "/a/1", 300, 5)
	l.deleted("/a/1", 6)
	l.put("client:ops", "/a/1", 300, 5)
	l.put("client:ops", "/other", 10, 5) // the watch records only keys with an owner
	if a := l.account("client:ops"); a.keys != 1 || a.kept != 10 {
		t.Errorf("%d keys of %d bytes are counted", a.keys, a.kept)
	}
	if a := l.account("node:a"); a.keys != 0 || a.kept != 0 {
		t.Errorf("%d keys of %d bytes are counted for the owner", a.keys, a.kept)
	}
}

func TestOlderRevisionsAreForgotten(t *testing.T) {
	l := newLedger(Limits{Bytes: 1000, Keys: 10}, 1<<40, time.Hour, func(string) string { return "" }, func() int64 { return 0 })
	now := time.Unix(1e9, 0)
	l.now = func() time.Time { return now }
	for revision := range int64(4) {
		l.put("node:a", "k", 300, revision+1)
	}
	for minutes, want := range []int64{0: 1200, 1: 1200, 64: 1200, 80: 300} {
		if want == 0 {
			continue
		}
		now = time.Unix(1e9, 0).Add(time.Duration(minutes) * time.Minute)
		if got := l.settle(l.account("node:a")); got != want {
			t.Errorf("after %d minutes: %d bytes, want %d", minutes, got, want)
		}
	}
}

// BenchmarkLimits compares a put and its event with and without limits, in turns. Ratios are of
// medians.
func BenchmarkLimits(b *testing.B) {
	c := newCluster(b, Limits{Bytes: 1 << 40}, 0, "a")
	ctx := b.Context()
	without, err := listenClients([]url.URL{{Scheme: "https", Host: "127.0.0.1:0"}})
	if err != nil {
		b.Fatal(err)
	}
	defer without.stop()
	if err := without.serve(c.s.etcd, []grpc.ServerOption{grpc.ChainUnaryInterceptor(maintenanceIsRoots)}, make(chan error, 1)); err != nil {
		b.Fatal(err)
	}
	clients := [2]*clientv3.Client{c.clientAt("https://"+without.listeners[0].Addr().String(), "node:a"), c.client("node:a")}
	var changes [2]clientv3.WatchChan
	for on, client := range clients {
		for i := range 1000 { // warm up connections and caches, and create keys
			if _, err := client.Put(ctx, fmt.Sprint("/vnf-agent/a/", on, "/", i), "x"); err != nil {
				b.Fatal(err)
			}
		}
		changes[on] = client.Watch(ctx, fmt.Sprint("/vnf-agent/a/", on, "/"), clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-changes[on]
	}
	value := strings.Repeat("x", 512)
	var puts, events [2][]time.Duration
	for i := 0; b.Loop(); i++ {
		on := i % 2
		begin := time.Now()
		if _, err := clients[on].Put(ctx, fmt.Sprint("/vnf-agent/a/", on, "/", i/2%1000), value); err != nil {
			b.Fatal(err)
		}
		puts[on] = append(puts[on], time.Since(begin))
		<-changes[on]
		events[on] = append(events[on], time.Since(begin))
	}
	if len(puts[1]) == 0 {
		return
	}
	median := func(list []time.Duration) float64 { slices.Sort(list); return float64(list[len(list)/2]) }
	b.ReportMetric(median(puts[1])/median(puts[0]), "put-ratio")
	b.ReportMetric(median(events[1])/median(events[0]), "watch-ratio")
}
