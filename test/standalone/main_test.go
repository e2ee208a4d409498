package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/rpc"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// binaries is the directory of the built programs.
var binaries string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run()) // each test skips itself with the reason
	}
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		return m.Run(), nil
	})
}

// site is a node: a network namespace, a directory, and an agent that can be restarted.
type site struct {
	t     *testing.T
	netns string
	dir   string
	flags []string
	cmd   *exec.Cmd
	log   *bytes.Buffer
	conn  *grpc.ClientConn
}

// newSite creates a node with additional agent flags.
func newSite(t *testing.T, flags ...string) *site {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	s := &site{t: t, dir: t.TempDir(), flags: flags}
	s.netns = s.addNetns("node")
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill()
		}
		if t.Failed() {
			t.Logf("log of the agent:\n%s", s.log)
		}
	})
	return s
}

// addNetns makes a network namespace for the test.
func (s *site) addNetns(suffix string) string {
	s.t.Helper()
	name := fmt.Sprintf("cs%d-%d-%s", os.Getpid(), time.Now().UnixNano()%1e6, suffix)
	s.run("ip", "netns", "add", name)
	s.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	s.run("ip", "-n", name, "link", "set", "lo", "up")
	return name
}

func (s *site) run(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ip runs an ip command on the node.
func (s *site) ip(args ...string) string {
	s.t.Helper()
	return s.run("ip", append([]string{"-n", s.netns}, args...)...)
}

func (s *site) path(file string) string { return filepath.Join(s.dir, file) }

// command is the agent with an optional subcommand.
func (s *site) command(subcommand ...string) *exec.Cmd {
	args := append([]string{"netns", "exec", s.netns, filepath.Join(binaries, "contiv-agent")}, subcommand...)
	args = append(args, "--node-name", "alone", "--run-dir", s.path("run"), "--bolt", s.path("bolt.db"),
		"--contiv-config", os.DevNull, "--controller-config", os.DevNull)
	if len(subcommand) == 0 {
		args = append(append(args, "--standalone"), s.flags...)
	}
	return exec.Command("ip", args...)
}

// start starts the agent and returns when it is ready.
func (s *site) start() {
	s.t.Helper()
	s.cmd, s.log = s.command(), &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	client := s.rest()
	await.That(s.t, "the agent is ready", func() error {
		response, err := client.Get("http://agent/readiness")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	var err error
	if s.conn, err = grpc.NewClient("unix://"+s.path("run/grpc.sock"), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		s.t.Fatal(err)
	}
}

// rest returns a client of the agent's socket.
func (s *site) rest() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.path("run/agent.sock"))
	}}}
}

// kill ends the agent with SIGKILL.
func (s *site) kill() { s.end(os.Kill) }

// stop ends the agent in order.
func (s *site) stop() { s.end(os.Interrupt) }

func (s *site) end(signal os.Signal) {
	s.t.Helper()
	s.conn.Close()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Error(err)
	}
	s.cmd.Wait()
	s.cmd = nil
}

func (s *site) change() rpc.DataChangeServiceClient { return rpc.NewDataChangeServiceClient(s.conn) }

func (s *site) put(r *rpc.DataRequest) {
	s.t.Helper()
	if _, err := s.change().Put(s.t.Context(), r); err != nil {
		s.t.Fatal(err)
	}
}

func loopback(name, address string) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, IpAddresses: []string{address}}
}

// link returns a TAP with its end in another namespace.
func link(netns string) *rpc.DataRequest {
	return &rpc.DataRequest{
		Interfaces: []*vpp_interfaces.Interface{{
			Name: "tap", Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{"10.50.0.1/24"},
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}},
		LinuxInterfaces: []*linux_interfaces.Interface{{
			Name: "far", Type: linux_interfaces.Interface_TAP_TO_VPP, Enabled: true, HostIfName: "eth0", IpAddresses: []string{"10.50.0.2/24"},
			Link:      &linux_interfaces.Interface_Tap{Tap: &linux_interfaces.TapLink{VppTapIfName: "tap"}},
			Namespace: &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: netns},
		}},
	}
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}

// vethPair joins two namespaces.
func vethPair(a, b string) []*linux_interfaces.Interface {
	end := func(name, peer, netns string) *linux_interfaces.Interface {
		return &linux_interfaces.Interface{
			Name: name, Type: linux_interfaces.Interface_VETH, Enabled: true,
			Link:      &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
			Namespace: &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: netns},
		}
	}
	return []*linux_interfaces.Interface{end("pair-a", "pair-b", a), end("pair-b", "pair-a", b)}
}
