package calico

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// delayed forwards connections of a socket with a delay in each direction until the test ends.
func delayed(t testing.TB, socket, to string, delay time.Duration) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pass := func(dst, src net.Conn) {
		type chunk struct {
			data []byte
			due  time.Time
		}
		chunks := make(chan chunk, 1<<16)
		go func() {
			defer dst.Close()
			for c := range chunks {
				time.Sleep(time.Until(c.due))
				if _, err := dst.Write(c.data); err != nil {
					src.Close()
				}
			}
		}()
		defer close(chunks)
		for {
			data := make([]byte, 32<<10)
			n, err := src.Read(data)
			if n > 0 {
				chunks <- chunk{data[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", to)
			if err != nil {
				client.Close()
				continue
			}
			go pass(server, client)
			go pass(client, server)
		}
	}()
}

// With an etcd that responds after almost half a second, everything works with a delay.
func TestSlowEtcd(t *testing.T) {
	s, nodes := newCluster(t, 2)
	slow := s.path("slow.sock")
	delayed(t, slow, s.path("etcd.sock"), 200*time.Millisecond)
	w1, w2 := nodes[0], nodes[1]
	w1.etcdAt, w2.etcdAt = "unix://"+slow, "unix://"+slow
	s.start(nodes...)
	s.awaitPing("a1", pod2)
	w1.awaitReady()
	s.putBlock(block3, "w2", nil)
	w1.awaitRoute(block3, "via 172.30.0.2 dev eth1")
	s.delete(blockKey(block3))
	w1.awaitRoute(block3, "")
	// Leases are renewed in time, so no route is removed within more than one TTL.
	end := time.Now().Add(7 * time.Second)
	for time.Now().Before(end) {
		if got := w1.ip("route", "show", block2); !strings.Contains(got, "via 172.30.0.2") {
			t.Fatalf("the route to %s is %q", block2, got)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// listening starts an etcd in a directory that listens on loopback with the given URL scheme, and
// on a socket without authentication.
func listening(t *testing.T, dir, scheme string, flags ...string) (endpoint string, db *clientv3.Client) {
	t.Helper()
	socket := "unix://" + filepath.Join(dir, "etcd.sock")
	cmd := exec.Command(filepath.Join(binaries, "contiv-etcd"), append([]string{
		"--data-dir", filepath.Join(dir, "data"), "--listen-client", scheme + "://127.0.0.1:0", "--listen-client", socket}, flags...)...)
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("etcd does not start: %v", err)
	}
	go io.Copy(io.Discard, stdout)
	for _, field := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,[]\n\"=", r) }) {
		if strings.HasPrefix(field, scheme+"://") {
			endpoint = field
		}
	}
	if endpoint == "" {
		t.Fatalf("etcd says %q", line)
	}
	if db, err = clientv3.New(clientv3.Config{Endpoints: []string{socket}, DialTimeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for key, value := range map[string]string{blockKey(block2): block(block2, "w2", nil), "/vpp-calico/hosts/w2/peerip/ipv4/1": "172.30.0.2"} {
		if _, err := db.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	return endpoint, db
}

func once(dir string, arguments ...string) (string, error) {
	out, err := exec.Command(filepath.Join(binaries, "contiv-calico-routes"), append([]string{"--once", "--once-timeout", "3s", "--hostname", "w1", "--run-dir", dir}, arguments...)...).CombinedOutput()
	return string(out), err
}

// etcd requires a user and a password, which are last in the documented command line.
func TestEtcdWithPassword(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the programs are built for tests that run as root")
	}
	dir := t.TempDir()
	endpoint, db := listening(t, dir, "http")
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range []string{"root", "routes"} {
		must(db.RoleAdd(ctx, user))
		must(db.UserAdd(ctx, user, "secret"))
		must(db.UserGrantRole(ctx, user, user))
	}
	for _, tree := range []string{"/calico/", "/vpp-calico/"} { // the minimal permissions
		must(db.RoleGrantPermission(ctx, "routes", tree, clientv3.GetPrefixRangeEnd(tree), clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	must(db.AuthEnable(ctx))
	host, port, err := net.SplitHostPort(strings.TrimPrefix(endpoint, "http://"))
	must(nil, err)
	documented := []string{"calico/ipam/v2/assignment/ipv4/block", "1", "172.30.0.1", "24", "http", host, port}
	if out, err := once(dir, append(documented, "routes", "secret", "--once-timeout", "1m")...); err != nil || !strings.Contains(out, block2) {
		t.Errorf("with the password: %v: %s", err, out)
	}
	for _, credentials := range [][]string{nil, {"routes", "wrong"}} {
		if out, err := once(dir, append(documented, credentials...)...); err == nil || strings.Contains(out, block2) || !strings.Contains(out, "etcd") {
			t.Errorf("with %q: %v: %s", credentials, err, out)
		}
	}
}

func TestEtcdWithTLS(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the programs are built for tests that run as root")
	}
	dir := t.TempDir()
	write := func(name string, pair pki.Pair) {
		t.Helper()
		for file, data := range map[string][]byte{name + ".crt": pair.Cert, name + ".key": pair.Key} {
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now()
	issue := func(name string) *pki.Authority {
		t.Helper()
		a, err := pki.NewAuthority(name, now)
		if err != nil {
			t.Fatal(err)
		}
		write(name, a.Pair())
		return a
	}
	ours, theirs := issue("ours"), issue("theirs")
	server, err := ours.IssueServer([]string{"localhost"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	write("server", server)
	for name, a := range map[string]*pki.Authority{"client": ours, "stranger": theirs} {
		pair, err := a.IssueClient("calico-routes", now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		write(name, pair)
	}
	in := func(name string) string { return filepath.Join(dir, name) }

	endpoint, _ := listening(t, dir, "https", "--cert-file", in("server.crt"), "--key-file", in("server.key"), "--client-ca-file", in("ours.crt"))
	once := func(flags ...string) (string, error) {
		return once(dir, append([]string{"--uplink", "lo", "--address", "172.30.0.1/24", "--etcd-endpoints", endpoint}, flags...)...)
	}
	if out, err := once("--once-timeout", "1m", "--etcd-ca-file", in("ours.crt"), "--etcd-cert-file", in("client.crt"), "--etcd-key-file", in("client.key")); err != nil || !strings.Contains(out, block2) {
		t.Errorf("with a certificate: %v: %s", err, out)
	}
	var refused sync.WaitGroup
	for name, flags := range map[string][]string{
		"no certificate":          {"--etcd-ca-file", in("ours.crt")},
		"certificate of another":  {"--etcd-ca-file", in("ours.crt"), "--etcd-cert-file", in("stranger.crt"), "--etcd-key-file", in("stranger.key")},
		"server of another":       {"--etcd-ca-file", in("theirs.crt"), "--etcd-cert-file", in("client.crt"), "--etcd-key-file", in("client.key")},
		"certificate without key": {"--etcd-ca-file", in("ours.crt"), "--etcd-cert-file", in("client.crt")},
	} {
		refused.Go(func() {
			if out, err := once(flags...); err == nil || strings.Contains(out, block2) || strings.TrimSpace(out) == "" {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		})
	}
	refused.Wait()
}
