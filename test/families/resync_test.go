package families

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// hasVRFDevices creates a VRF device. The driver uses another check.
var hasVRFDevices = sync.OnceValue(func() bool {
	return exec.Command("unshare", "--net", "ip", "link", "add", "name", "probe", "type", "vrf", "table", "77").Run() == nil
})

// inVRF matches values of VRFs, and values that wait for them.
var inVRF = regexp.MustCompile(`^vpp\.vrf-table|"(src_)?vrf(_id)?":5\b`)

// valuesFor returns the file's values for a pod in the namespace, without VRFs if the kernel has no
// VRF devices.
func valuesFor(t testing.TB, pod netns) (values []proto.Message) {
	t.Helper()
	text, err := os.ReadFile("testdata/values.txt")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*models.Model{}
	for _, m := range models.All() {
		byName[m.Name()] = m
	}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "POD", pod.path())) {
		if !hasVRFDevices() && inVRF.MatchString(line) {
			continue
		}
		name, data, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "#" || strings.HasPrefix(name, "#") || byName[name] == nil {
			continue
		}
		value, err := byName[name].Unmarshal([]byte(data))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		values = append(values, value)
	}
	return values
}

// newSite returns the namespaces of a node with two network cards, and of a pod.
func newSite(t testing.TB) (node, pod netns) {
	t.Helper()
	node, pod = newNetNS(t), newNetNS(t)
	for _, nic := range []string{"nic0", "nic1"} {
		node.ip("link", "add", nic, "type", "veth", "peer", "name", nic+"-peer")
		node.ip("link", "set", nic, "up")
		node.ip("link", "set", nic+"-peer", "up")
	}
	node.ip("address", "add", "10.99.0.1/24", "dev", "nic1")
	return node, pod
}

// A resync without differences executes nothing and changes nothing in the kernel, in a running or
// a restarted agent.
func TestResyncWithNothingDifferentTouchesNothing(t *testing.T) {
	node, pod := newSite(t)
	values := valuesFor(t, pod)
	a := startAgent(t, node)
	a.watch()
	a.resync(values...)
	a.become(pb.ValueState_CONFIGURED, values...)
	here, there := listenTo(t, node), listenTo(t, pod)
	quiet := func(what string, executed []string) {
		t.Helper()
		for _, op := range executed {
			t.Errorf("%s executed %s", what, op)
		}
		for _, change := range append(here.changes(), there.changes()...) {
			t.Errorf("%s changed something: %s", what, change)
		}
	}
	here.quiet()
	there.quiet()
	quiet("a downstream resync", a.resync())
	quiet("a full resync", a.resync(values...))
	a.stop()
	a = startAgent(t, node)
	quiet("the resync of an agent that starts", a.resync(values...))
	quiet("one more downstream resync", a.resync())
}

// Addresses on foreign devices that an earlier agent was requested to add, and that are no longer
// requested, are removed; the host's own stay.
func TestAddressesThatNobodyRequestsAnyMoreGo(t *testing.T) {
	node, _ := newSite(t)
	given := &linux_interfaces.Interface{
		Name: "given", Type: linux_interfaces.Interface_EXISTING, Enabled: true, HostIfName: "nic1", IpAddresses: []string{"10.35.0.1/24", "10.36.0.1/24"},
	}
	a := startAgent(t, node)
	a.watch()
	a.resync(given)
	a.become(pb.ValueState_CONFIGURED, given)
	a.stop()
	fewer := proto.CloneOf(given)
	fewer.IpAddresses = fewer.GetIpAddresses()[:1]
	a = startAgent(t, node)
	a.resync(fewer)
	if out := node.ip("address", "show", "dev", "nic1"); !strings.Contains(out, "10.35.0.1") || strings.Contains(out, "10.36.0.1") {
		t.Errorf("with one address less: %s", out)
	}
	a.stop()
	a = startAgent(t, node)
	a.resync(&linux_interfaces.Interface{Name: "other", Type: linux_interfaces.Interface_EXISTING, Enabled: true, HostIfName: "nic0"})
	if out := node.ip("address", "show", "dev", "nic1"); strings.Contains(out, "10.35.0.1") || !strings.Contains(out, "10.99.0.1") {
		t.Errorf("without the interface: %s", out)
	}
}

// AF_PACKET attaches to an interface of the linux.* models like to any host device, by either name
// and in either order.
func TestAFPacketOnInterfaceOfLinux(t *testing.T) {
	for name, link := range map[string]*vpp_interfaces.AfpacketLink{
		"by the name of the device": {HostIfName: "veth1"},
		"by the logical name":       {LinuxInterface: "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			node, pod := newSite(t)
			af := &vpp_interfaces.Interface{
				Name: "af", Type: vpp_interfaces.Interface_AF_PACKET, Enabled: true, IpAddresses: []string{"10.60.0.1/24"},
				Link: &vpp_interfaces.Interface_Afpacket{Afpacket: link},
			}
			v1, v2 := vethEnd("v1", "v2", "veth1", ""), vethEnd("v2", "v1", "eth0", "10.60.0.2/24")
			v2.Namespace = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: pod.name}
			a := startAgent(t, node)
			a.watch()
			a.put(af)
			a.become(pb.ValueState_PENDING, af)
			a.put(v1, v2)
			a.become(pb.ValueState_CONFIGURED, v1, v2, af)
			run(t, "ip", "netns", "exec", pod.name, "ping", "-c1", "-W20", "10.60.0.1")
			a.delete(v1, v2)
			a.become(pb.ValueState_PENDING, af)
		})
	}
}

// vethEnd returns one end of a veth pair.
func vethEnd(name, peer, device, addr string) *linux_interfaces.Interface {
	v := &linux_interfaces.Interface{
		Name: name, Type: linux_interfaces.Interface_VETH, Enabled: true, HostIfName: device,
		Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}},
	}
	if addr != "" {
		v.IpAddresses = []string{addr}
	}
	return v
}
