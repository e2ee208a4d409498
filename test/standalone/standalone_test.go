package standalone

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/rpc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func (s *site) ping(netns string) error {
	out, err := output("ip", "netns", "exec", netns, "ping", "-c1", "-W2", "10.50.0.1")
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// A client's configuration works with packets, survives the agent, is repaired after foreign
// changes, and is removed on request.
func TestConfigurationTakesEffect(t *testing.T) {
	s := newSite(t)
	far := s.addNetns("far")
	s.start()
	s.put(link(far))
	if err := s.ping(far); err != nil {
		t.Errorf("no packets after the call: %v", err)
	}

	s.run("ip", "-n", far, "link", "del", "eth0")
	await.That(s.t, "drift is repaired", func() error { return s.ping(far) })

	s.stop()
	if err := s.ping(far); err != nil {
		t.Errorf("no packets after the agent has ended: %v", err)
	}
	s.start()
	if err := s.ping(far); err != nil {
		t.Errorf("no packets after the agent has started again: %v", err)
	}
	if strings.Contains(s.log.String(), "CREATE") {
		t.Error("the restart has recreated objects")
	}
	if _, err := s.change().Del(t.Context(), link(far)); err != nil {
		t.Fatal(err)
	}
	if devices := s.ip("-br", "link"); strings.Count(devices, "\n") != 1 {
		t.Errorf("left on the node: %s", devices)
	}
}

// A request accepted before the agent is killed is executed after its restart.
func TestAcceptedRequestsSurviveSIGKILL(t *testing.T) {
	s := newSite(t)
	s.start()
	s.put(&rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{loopback("a", "10.60.0.1/24")}})
	s.kill()
	s.ip("link", "del", "c-a")
	s.start()
	if addresses := s.ip("-br", "addr"); !strings.Contains(addresses, "10.60.0.1/24") {
		t.Errorf("after the restart: %s", addresses)
	}
}

// Requests interrupted by the agent's death are applied completely or not at all; confirmed ones
// are in force.
func TestSIGKILLWhileClientsWrite(t *testing.T) {
	s := newSite(t)
	s.start()
	const clients = 8
	var mu sync.Mutex
	var confirmed []string
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for i := 0; ; i++ {
				n := c*100 + i
				r := &rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{
					loopback(fmt.Sprintf("x%d", n), fmt.Sprintf("10.%d.%d.1/24", 61+n/200, n%200)),
					loopback(fmt.Sprintf("y%d", n), fmt.Sprintf("10.%d.%d.1/24", 71+n/200, n%200)),
				}}
				if _, err := s.change().Put(t.Context(), r); err != nil {
					return
				}
				mu.Lock()
				confirmed = append(confirmed, fmt.Sprint(n))
				mu.Unlock()
			}
		})
	}
	await.That(s.t, "some requests are confirmed", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(confirmed) < 10 {
			return errors.New("not yet")
		}
		return nil
	})
	s.kill()
	group.Wait()
	s.start()
	devices := s.ip("-br", "link")
	has := func(name string) bool { return strings.Contains(devices, "c-"+name+"@") }
	for _, n := range confirmed {
		if !has("x"+n) || !has("y"+n) {
			t.Errorf("request %s was confirmed and is lost", n)
		}
	}
	for n := range clients * 100 {
		if x, y := has(fmt.Sprint("x", n)), has(fmt.Sprint("y", n)); x != y {
			t.Errorf("request %d is done by half", n)
		}
	}
}

func TestDamagedFileIsPutAside(t *testing.T) {
	s := newSite(t)
	if err := os.WriteFile(s.path("grpc.db"), []byte(strings.Repeat("garbage ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.put(&rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{loopback("a", "10.60.0.1/24")}})
	if moved, _ := filepath.Glob(s.path("grpc.db.damaged-*")); len(moved) != 1 {
		t.Errorf("put aside: %q", moved)
	}
	if !strings.Contains(s.log.String(), "damaged") {
		t.Error("the log does not report it")
	}
}

// With certificates enabled, TCP clients need one.
func TestClientCertificates(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	s := newSite(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-client-ca-file", a.CAFile(), "--grpc", "0.0.0.0:9111")
	s.start()
	call := func(creds credentials.TransportCredentials) error {
		conn, err := grpc.NewClient("passthrough:127.0.0.1:9111", grpc.WithTransportCredentials(creds), grpc.WithContextDialer(s.dial))
		if err != nil {
			return err
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = rpc.NewDataChangeServiceClient(conn).Put(ctx, &rpc.DataRequest{})
		return err
	}
	if err := call(credentials.NewTLS(a.Client("client", "contiv:configure"))); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := call(credentials.NewTLS(a.Client("auditor", "contiv:read"))); status.Code(err) != codes.PermissionDenied {
		t.Errorf("changing with a certificate for reading: %v", err)
	}
	stranger := &tls.Config{RootCAs: a.Client("").RootCAs, ServerName: "localhost", Certificates: listenertest.NewAuthority(t).Client("client", "contiv:configure").Certificates}
	for name, creds := range map[string]credentials.TransportCredentials{
		"no certificate": credentials.NewTLS(a.Client("")), "strange certificate": credentials.NewTLS(stranger), "no TLS": insecure.NewCredentials(),
	} {
		if err := call(creds); status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// dial connects from the node's namespace.
func (s *site) dial(_ context.Context, address string) (conn net.Conn, err error) {
	nsErr := lab.InNetns(lab.NetnsPath(s.netns), func() error {
		conn, err = net.Dial("tcp", address)
		return nil
	})
	return conn, errors.Join(nsErr, err)
}

func TestOpenAddressIsRefused(t *testing.T) {
	s := newSite(t, "--grpc", "0.0.0.0:9111")
	out, err := s.command().CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--tls-client-ca-file") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUninstall(t *testing.T) {
	s := newSite(t)
	far, other := s.addNetns("far"), s.addNetns("other")
	before, farBefore := s.ip("-br", "addr"), s.run("ip", "-n", far, "-br", "addr")
	s.start()
	s.put(link(far))
	s.put(&rpc.DataRequest{LinuxInterfaces: vethPair(far, other)})
	if devices := s.run("ip", "-n", other, "-br", "link"); !strings.Contains(devices, "pair-b") {
		t.Errorf("no VETH in the other namespace: %s", devices)
	}
	s.stop()
	if out, err := s.command("uninstall").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if after := s.ip("-br", "addr"); after != before {
		t.Errorf("left on the node: %s", after)
	}
	if after := s.run("ip", "-n", far, "-br", "addr"); after != farBefore {
		t.Errorf("left in the other namespace: %s", after)
	}
}
