package vswitchtest

import (
	"testing"

	"github.com/contiv/contiv/internal/vswitch"
)

// Site is the environment of a vswitch: a network namespace, a VPP process, or memory. A new site
// is empty except for one network device.
type Site interface {
	// Open starts a driver. The tests close it and open another one to simulate a restart of the
	// agent.
	Open(t testing.TB) vswitch.VSwitch
	// NIC returns the name of the existing device.
	NIC() string
	// Foreign creates objects of other programs, of every kind. damage returns the ones that have
	// been removed or changed.
	Foreign(t testing.TB) (damage func() []string)
	// Accidents returns ways to damage the Topology behind the driver's back.
	Accidents() []Accident
}

// Accident damages some values of the Topology.
type Accident struct {
	Name string
	Do   func(t testing.TB)
	// Keys lists keys of which at least one must be reported.
	Keys []string
}

// PacketSite carries packets.
type PacketSite interface {
	Site
	// Connect connects the NICs of two sites.
	Connect(t testing.TB, other PacketSite)
	// Plug moves the far end of a TAP into a new host as eth0.
	Plug(t testing.TB, hostIfName string) *Host
	// Self returns the node as a host. Its sockets use the stack of the vswitch if
	// Capabilities.HostStackShared is set.
	Self() *Host
}

// OutsideSite creates hosts on the network of its NIC, after Connect. The suite otherwise uses the
// NIC of another site.
type OutsideSite interface {
	PacketSite
	Outside(t testing.TB, addr string) *Host
}

// VRFSite provides accidents for VRFValues.
type VRFSite interface {
	Site
	VRFAccidents() []Accident
}

// VRFDeviceSite is a site whose kernel may have VRF devices.
type VRFDeviceSite interface {
	PacketSite
	// VRFDevice returns the name and the table of the device of a VRF. The name is "" without VRF
	// devices.
	VRFDevice(vrf uint32) (name string, table uint32)
}

// Config configures the suite for a driver.
type Config struct {
	// NewSite returns a new site that is removed at the end of the test.
	NewSite func(t testing.TB) Site
	// Parallel runs the parts of the suite in parallel. They mostly wait.
	Parallel bool
	// SessionsOfDNAT: connections to a local address, including TCP, end when the address is
	// removed. A client stays with its local address while the vswitch remembers the connection.
	SessionsOfDNAT bool
	// L3CrossConnectsAll: cross-connects also take packets to the vswitch itself.
	L3CrossConnectsAll bool
	// ForwardsByAddress: an interface handles an IP version only if it has or borrows an address of
	// that version.
	ForwardsByAddress bool
	// ClientsOfDNAT66Move: with session affinity, some clients move when an endpoint is added or
	// removed.
	ClientsOfDNAT66Move bool
	// FlowsOfDNAT66Stay: flows to a removed endpoint continue.
	FlowsOfDNAT66Stay bool
	// ReflectionsStay: reflected replies bypass other lists on an interface that has no list left
	// in the direction of the reflecting list.
	ReflectionsStay bool
	// ClientIPIgnored: client_ip of endpoints has no effect.
	ClientIPIgnored bool
	// SilentDrops: the vswitch sends no ICMP error for packets without a route.
	SilentDrops bool
	// PeersOfGroups: a VXLAN tunnel to a group only sends. The vswitch accepts packets to the group
	// only from peers with a tunnel of the same VNI.
	PeersOfGroups bool
	// NoICMPErrors: ICMP errors of inside hosts do not leave through an interface with the NAT
	// output feature.
	NoICMPErrors bool
	// ErrorsOfNoConnection: a guard compares the destination of the packet that an ICMP error quotes,
	// and knows no connections.
	ErrorsOfNoConnection bool
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
