package vswitchtest

import (
	"testing"

	"github.com/contiv/contiv/vswitch"
)

// Site is where a vswitch lives: a network namespace, a VPP process, memory. A
// new one is empty but for one network device.
type Site interface {
	// Open starts a driver. The tests close it, and open another one to act the
	// restarted agent.
	Open(t testing.TB) vswitch.VSwitch
	// NIC is the name of the device that exists.
	NIC() string
	// Foreign makes objects that are none of ours, of every kind that may lie
	// around, and returns a function that says which of them are gone or
	// changed.
	Foreign(t testing.TB) (damage func() []string)
	// Accidents are ways to damage the Topology behind the driver's back.
	Accidents() []Accident
}

// Accident damages some values of the Topology.
type Accident struct {
	Name string
	Do   func(t testing.TB)
	// Keys of which at least one must be reported.
	Keys []string
}

// PacketSite carries packets.
type PacketSite interface {
	Site
	// Connect joins the NICs of two sites.
	Connect(t testing.TB, other PacketSite)
	// Plug takes the far end of a TAP into a new host, as interface eth0.
	Plug(t testing.TB, hostIfName string) *Host
	// Self is the node itself: its sockets use the stack of the vswitch, if
	// Capabilities.HostStackShared says so.
	Self() *Host
}

// OutsideSite can be asked for a host on the network of its NIC, with an address: after
// Connect. Without, the NIC of another site stands for one.
type OutsideSite interface {
	PacketSite
	Outside(t testing.TB, addr string) *Host
}

// VRFSite knows ways to damage what VRFValues ask for.
type VRFSite interface {
	Site
	VRFAccidents() []Accident
}

// VRFDeviceSite may have a kernel with VRF devices.
type VRFDeviceSite interface {
	PacketSite
	// VRFDevice returns the name and the table of the device of a VRF; "" if VRFs have none here.
	VRFDevice(vrf uint32) (name string, table uint32)
	// OpenWithoutVRFDevices is Open of an earlier version, which does not use them.
	OpenWithoutVRFDevices(t testing.TB) vswitch.VSwitch
	// Emulation returns what such a version has left.
	Emulation(t testing.TB) string
}

// Config says what to run on.
type Config struct {
	// NewSite returns a new site that is cleaned up with the test.
	NewSite func(t testing.TB) Site
	// Parallel: the parts of the suite run at the same time. Most of what they do is to wait.
	Parallel bool
	// SessionsOfDNAT: whatever goes to a local address ends with it, TCP too, and keeps
	// its client there as long as the vswitch remembers the connection.
	SessionsOfDNAT bool
	// L3CrossConnectsAll: they also take what is for the vswitch itself.
	L3CrossConnectsAll bool
	// ForwardsByAddress: an interface sends and takes packets of an IP version only if it
	// has an address of that version, or borrows one.
	ForwardsByAddress bool
	// ClientsOfDNAT66Move: with session affinity, some clients get another local address
	// when there is one more or less.
	ClientsOfDNAT66Move bool
	// FlowsOfDNAT66Stay: what goes to a local address goes on when it is none any more.
	FlowsOfDNAT66Stay bool
	// ReflectionsStay: answers to what an access list reflected pass others on an interface that has none any more for the direction
	// of the list.
	ReflectionsStay bool
	// ClientIPIgnored: client_ip of local addresses has no effect.
	ClientIPIgnored bool
	// SilentDrops: the vswitch sends no ICMP error for packets without a route.
	SilentDrops bool
	// PeersOfGroups: a VXLAN tunnel to a group only sends. What is sent to the group is taken
	// from those to whom there is a tunnel of the same VNI, too.
	PeersOfGroups bool
	// NoICMPErrors: those that inside hosts send do not leave through an interface with
	// the output feature of NAT.
	NoICMPErrors bool
	// ICMPErrorsOfPodsPass: a guard does not look at what the ICMP errors of its interface quote.
	ICMPErrorsOfPodsPass bool
}

// Run runs the suite.
func Run(t *testing.T, c Config) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, Config)
	}{
		{"port", runPort}, {"scheduler", runScheduler}, {"packets", runPackets}, {"access lists", runACLs}, {"features", runFeatures},
		{"states", runStates}, {"links", runLinks}, {"NAT", runNAT}, {"NAT of IPv6", runDNAT66}, {"services", runServices}, {"IPVS", runIPVS}, {"VRFs", runVRFs}, {"guards", runGuards}, {"filter", runFilter},
	} {
		t.Run(part.name, func(t *testing.T) {
			if c.Parallel {
				t.Parallel()
			}
			part.run(t, c)
		})
	}
}

func open(t testing.TB, s Site) vswitch.VSwitch {
	t.Helper()
	vs := s.Open(t)
	t.Cleanup(func() { vs.Close() })
	return vs
}
