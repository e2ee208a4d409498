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

	"github.com/contiv/contiv/pki"
	"github.com/contiv/contiv/store/etcd"
)

// delayed passes on what comes through a socket, in either direction that much later, until the
// test ends.
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

// With an etcd that takes almost half a second to answer, all becomes as it should, later.
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
	// Leases are renewed in time: longer than one of them lasts, no route goes.
	end := time.Now().Add(7 * time.Second)
	for time.Now().Before(end) {
		if got := w1.ip("route", "show", block2); !strings.Contains(got, "via 172.30.0.2") {
			t.Fatalf("the route to %s is %q", block2, got)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// etcd asks for a certificate.
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

	cmd := exec.Command(filepath.Join(binaries, "contiv-etcd"), "--data-dir", in("data"), "--listen-client", "https://127.0.0.1:0", "--listen-client", "unix://"+in("etcd.sock"),
		"--cert-file", in("server.crt"), "--key-file", in("server.key"), "--client-ca-file", in("ours.crt"))
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
	endpoint := ""
	for _, field := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,[]\n\"=", r) }) {
		if strings.HasPrefix(field, "https://") {
			endpoint = field
		}
	}
	if endpoint == "" {
		t.Fatalf("etcd says %q", line)
	}
	db, err := etcd.New(etcd.Config{Endpoints: []string{"unix://" + in("etcd.sock")}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for key, value := range map[string]string{blockKey(block2): block(block2, "w2", nil), "/vpp-calico/hosts/w2/peerip/ipv4/1": "172.30.0.2"} {
		if err := db.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	once := func(flags ...string) (string, error) {
		out, err := exec.Command(filepath.Join(binaries, "contiv-calico-routes"), append([]string{"--once", "--once-timeout", "3s", "--hostname", "w1", "--uplink", "lo", "--address", "172.30.0.1/24",
			"--etcd-endpoints", endpoint, "--run-dir", dir}, flags...)...).CombinedOutput()
		return string(out), err
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
