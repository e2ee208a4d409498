package cnibench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// debianPlugins is the path of Debian's package containernetworking-plugins.
const debianPlugins = "/usr/lib/cni"

// otherBuild is the environment variable with the directory of another build. Its binaries become a
// reference.
const otherBuild = "CNIBENCH_OTHER"

// side is a runtime and its configuration under comparison.
type side struct {
	name    string
	runtime *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	timing  string
}

// site is the test machine.
type site struct {
	lab      *lab.Lab
	binaries string // directory
	contiv   *side
	// references are bridge without and with masquerading, which Contiv has, too.
	references []*side
	netns      []string // created by the benchmark
}

// built builds the binaries once for all benchmarks and returns their directory. TestMain removes it.
var built = sync.OnceValues(func() (directory string, err error) {
	return binariesOfTests, labtest.Build("-trimpath", "-o", binariesOfTests+"/", "./cmd/...")
})

var binariesOfTests string

func TestMain(m *testing.M) {
	var err error
	if binariesOfTests, err = os.MkdirTemp("", "cnibench"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(binariesOfTests)
	os.Exit(code)
}

// newSite makes a lab of one node and a namespace per reference.
func newSite(b *testing.B) *site {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("the lab makes network namespaces; run the benchmarks as root")
	}
	if _, err := os.Stat(filepath.Join(debianPlugins, "bridge")); err != nil {
		b.Skipf("install the Debian package containernetworking-plugins, or run make packages: %v", err)
	}
	binaries, err := built()
	if err != nil {
		b.Fatal(err)
	}
	s := &site{binaries: binaries}
	s.lab, s.contiv = s.node(b, "contiv", binaries)
	s.references = []*side{s.reference(b, "bridge", false), s.reference(b, "bridge+masq", true)}
	if dir := os.Getenv(otherBuild); dir != "" {
		_, other := s.node(b, "other", dir)
		s.references = append(s.references, other)
	}
	return s
}

// node makes a lab of one node with the binaries of a directory and additional agent flags.
func (s *site) node(b *testing.B, name, binaries string, flags ...string) (*lab.Lab, *side) {
	b.Helper()
	l := labtest.Up(b, lab.Options{Name: fmt.Sprintf("cb%d%s", os.Getpid(), name[:1]), Nodes: 1, BinDir: binaries, AgentFlags: flags})
	runtime, err := l.Runtime("node1", b.TempDir(), binaries)
	if err != nil {
		b.Fatal(err)
	}
	list, err := libcni.ConfListFromFile(l.Conflist("node1"))
	if err != nil {
		b.Fatal(err)
	}
	return l, &side{name: name, runtime: runtime, list: list, timing: filepath.Join(filepath.Dir(l.Conflist("node1")), "cni-timing.jsonl")}
}

func (s *site) reference(b *testing.B, name string, masquerade bool) *side {
	b.Helper()
	node := fmt.Sprintf("%s-ref%d", s.lab.Name(), len(s.netns))
	s.addNetns(b, node)
	dir := b.TempDir()
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "reference", "plugins": [
		{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": %t, "hairpinMode": true,
		 "ipam": {"type": "host-local", "subnet": "10.66.0.0/16", "dataDir": %q, "routes": [{"dst": "0.0.0.0/0"}]}}]}`, masquerade, dir))
	if err != nil {
		b.Fatal(err)
	}
	timing := filepath.Join(dir, "timing")
	return &side{name: name, list: list, timing: timing, runtime: lab.RuntimeIn(lab.NetnsPath(node), timing, filepath.Join(dir, "cache"), debianPlugins)}
}

func (s *site) addNetns(b *testing.B, name string) {
	b.Helper()
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	s.netns = append(s.netns, name)
	b.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
}

// pod is a network namespace that one side wires.
type pod struct {
	side *side
	conf *libcni.RuntimeConf
}

func (s *site) newPod(b *testing.B, side *side, number int) *pod {
	b.Helper()
	name := fmt.Sprintf("%s-%s-%d", s.lab.Name(), side.name, number)
	s.addNetns(b, name)
	return &pod{side: side, conf: &libcni.RuntimeConf{
		ContainerID: fmt.Sprintf("p%dx%d", number, time.Now().UnixNano()), NetNS: lab.NetnsPath(name), IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "bench"}, {"K8S_POD_NAME", fmt.Sprintf("pod%d", number)}},
	}}
}

// add returns the time that the runtime waited.
func (p *pod) add(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	_, err := p.side.runtime.AddNetworkList(ctx, p.side.list, p.conf)
	if err != nil {
		err = fmt.Errorf("%s: ADD: %w", p.side.name, err)
	}
	return time.Since(began), err
}

func (p *pod) check(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := p.side.runtime.CheckNetworkList(ctx, p.side.list, p.conf)
	return time.Since(began), err
}

func (p *pod) remove(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := p.side.runtime.DelNetworkList(ctx, p.side.list, p.conf)
	took := time.Since(began)
	out, delErr := exec.Command("ip", "netns", "del", filepath.Base(p.conf.NetNS)).CombinedOutput()
	if delErr != nil {
		delErr = fmt.Errorf("%w: %s", delErr, out)
	}
	return took, errors.Join(err, delErr)
}
