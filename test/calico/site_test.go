package calico

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/calico/ipamdata"
	"github.com/contiv/contiv/test/labtest"
)

var binaries string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run()) // each test skips itself and reports the reason
	}
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		return m.Run(), nil
	})
}

// site consists of nodes on a common link, and an etcd.
type site struct {
	t    testing.TB
	dir  string
	name string
	etcd *exec.Cmd
	db   store.Broker
}

func newSite(t testing.TB) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	s := &site{t: t, dir: t.TempDir(), name: fmt.Sprintf("cc%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)}
	s.addNetns("sw")
	s.run("ip", "-n", s.netns("sw"), "link", "add", "br0", "type", "bridge")
	s.run("ip", "-n", s.netns("sw"), "link", "set", "br0", "up")
	s.startEtcd()
	db, err := etcd.New(etcd.Config{Endpoints: []string{s.endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	s.db = db
	t.Cleanup(func() { db.Close() })
	s.awaitEtcd()
	return s
}

func (s *site) netns(part string) string { return s.name + "-" + part }

func (s *site) addNetns(part string) {
	s.t.Helper()
	name := s.netns(part)
	s.run("ip", "netns", "add", name)
	s.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	s.run("ip", "-n", name, "link", "set", "lo", "up")
}

func (s *site) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s *site) path(file string) string { return filepath.Join(s.dir, file) }
func (s *site) endpoint() string        { return "unix://" + s.path("etcd.sock") }

func (s *site) startEtcd() {
	s.t.Helper()
	s.etcd = exec.Command(filepath.Join(binaries, "contiv-etcd"), "--data-dir", s.path("etcd"), "--listen-client", s.endpoint())
	if err := s.etcd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd := s.etcd
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}

func (s *site) awaitEtcd() {
	s.t.Helper()
	await.That(s.t, "etcd answers", func() error {
		_, _, err := s.db.Get(s.t.Context(), "/x")
		return err
	})
}

func (s *site) killEtcd() {
	s.etcd.Process.Kill()
	s.etcd.Wait()
}

func (s *site) put(key, value string) {
	s.t.Helper()
	if err := s.db.Put(s.t.Context(), key, []byte(value)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) delete(key string) {
	s.t.Helper()
	if err := s.db.Delete(s.t.Context(), key); err != nil {
		s.t.Fatal(err)
	}
}

func blockKey(cidr string) string { return ipamdata.BlockKey(netip.MustParsePrefix(cidr)) }

// block returns the JSON of a block. used maps ordinals to hosts.
func block(cidr, host string, used map[int]string) string {
	b := ipamdata.Block{CIDR: netip.MustParsePrefix(cidr), Host: host, Used: map[int]ipamdata.Use{}}
	for ordinal, node := range used {
		b.Used[ordinal] = ipamdata.Use{Handle: fmt.Sprint("k8s-pod-network.", ordinal), Node: node, Namespace: "default", Pod: "p"}
	}
	return string(b.JSON())
}

func (s *site) putBlock(cidr, host string, used map[int]string) {
	s.t.Helper()
	s.put(blockKey(cidr), block(cidr, host, used))
}

type node struct {
	*site
	name  string
	n     int
	flags []string
	cmd   *exec.Cmd
	log   *bytes.Buffer
	// etcdAt is the etcd endpoint of the node, "" for the site's endpoint.
	etcdAt string
	// hasAddress is set if the uplink already has an address.
	hasAddress bool
}

// addNode makes the node w<n> with the uplink eth1 on the common link.
func (s *site) addNode(n int, flags ...string) *node {
	s.t.Helper()
	w := &node{site: s, name: fmt.Sprint("w", n), n: n, log: &bytes.Buffer{}, flags: flags}
	s.addNetns(w.name)
	port := fmt.Sprint("p", n)
	s.run("ip", "-n", s.netns("sw"), "link", "add", port, "master", "br0", "type", "veth", "peer", "name", "eth1", "netns", s.netns(w.name))
	s.run("ip", "-n", s.netns("sw"), "link", "set", port, "up")
	s.run("ip", "netns", "exec", s.netns(w.name), "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_forward=1", "net.ipv6.conf.default.accept_dad=0")
	s.t.Cleanup(func() {
		w.stop()
		if s.t.Failed() {
			s.t.Logf("%s: routes:\n%s%s\nlog:\n%s", w.name, w.ip("route"), w.ip("-6", "route"), w.log)
		}
	})
	return w
}

const gatewayMAC = "ee:ee:ee:ee:ee:ee"

func (w *node) ip(args ...string) string {
	w.t.Helper()
	return w.run("ip", append([]string{"-n", w.netns(w.name)}, args...)...)
}

// addPod attaches a pod like Calico: a host route, and a link-local gateway that no node owns.
func (w *node) addPod(name, address string) {
	w.t.Helper()
	w.addNetns(name)
	pod := w.netns(name)
	w.ip("link", "add", "cali"+name, "type", "veth", "peer", "name", "eth0", "netns", pod)
	w.ip("link", "set", "cali"+name, "up")
	w.run("ip", "netns", "exec", pod, "sysctl", "-qw", "net.ipv6.conf.eth0.accept_dad=0")
	w.run("ip", "-n", pod, "link", "set", "eth0", "up")
	if strings.Contains(address, ":") {
		w.run("ip", "-n", pod, "addr", "add", address+"/128", "dev", "eth0")
		w.ip("addr", "add", "fe80::1/64", "dev", "cali"+name, "nodad")
		w.run("ip", "-n", pod, "route", "add", "default", "via", "fe80::1", "dev", "eth0")
		w.ip("route", "add", address+"/128", "dev", "cali"+name)
		return
	}
	w.ip("link", "set", "cali"+name, "address", gatewayMAC)
	w.run("ip", "-n", pod, "neigh", "add", "169.254.1.1", "lladdr", gatewayMAC, "dev", "eth0", "nud", "permanent")
	w.run("ip", "-n", pod, "addr", "add", address+"/32", "dev", "eth0")
	w.run("ip", "-n", pod, "route", "add", "169.254.1.1", "dev", "eth0")
	w.run("ip", "-n", pod, "route", "add", "default", "via", "169.254.1.1", "dev", "eth0")
	w.ip("route", "add", address+"/32", "dev", "cali"+name)
}

func (s *site) ping(pod, to string) error {
	out, err := exec.Command("ip", "netns", "exec", s.netns(pod), "ping", "-c1", "-W1", to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ping %s from %s: %w: %s", to, pod, err, out)
	}
	return nil
}

func (s *site) awaitPing(pod, to string) {
	s.t.Helper()
	await.That(s.t, pod+" reaches "+to, func() error { return s.ping(pod, to) })
}

// awaitRoute waits until the route to a destination contains the text, or is gone if the text is
// empty.
func (w *node) awaitRoute(destination, text string) {
	w.t.Helper()
	await.That(w.t, fmt.Sprintf("route of %s to %s: %q", w.name, destination, text), func() error {
		got := w.ip("route", "show", destination)
		if strings.Contains(destination, ":") {
			got = w.ip("-6", "route", "show", destination)
		}
		if text == "" && got != "" || !strings.Contains(got, text) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

func (w *node) arguments() []string {
	args := []string{"--hostname", w.name, "--uplink", "eth1", "--ttl", "5s", "--etcd-endpoints", cmp.Or(w.etcdAt, w.endpoint()),
		"--run-dir", w.path(w.name), "--http", ""}
	if !w.hasAddress {
		args = append(args, "--address", fmt.Sprintf("172.30.0.%d/24,2001:db8::%d/64", w.n, w.n))
	}
	return append(args, w.flags...)
}

func (w *node) command(args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", w.netns(w.name), filepath.Join(binaries, "contiv-calico-routes")}, args...)...)
}

func (w *node) start() {
	w.t.Helper()
	w.cmd = w.command(w.arguments()...)
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *node) stop() {
	if w.cmd != nil {
		w.cmd.Process.Signal(os.Interrupt)
		w.cmd.Wait()
		w.cmd = nil
	}
}

func (w *node) get(path string, into any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(w.path(w.name), "agent.sock"))
	}}}
	response, err := client.Get("http://agent" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	body.ReadFrom(response.Body)
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status + ": " + body.String())
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body.Bytes(), into)
}

func (w *node) awaitReady() {
	w.t.Helper()
	await.That(w.t, w.name+" is ready", func() error { return w.get("/readiness", nil) })
}
