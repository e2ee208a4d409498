package interfaces

import (
	"errors"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

func TestLinkValidation(t *testing.T) {
	type mode = vpp_interfaces.Interface_RxMode
	rx := func(typ vpp_interfaces.Interface_Type, modes ...*mode) error {
		return validateRxModes(&vpp_interfaces.Interface{Type: typ, RxModes: modes})
	}
	bond := func(members ...string) error {
		iface := &vpp_interfaces.Interface{Name: "bond", Link: &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{Mode: vpp_interfaces.BondLink_LACP}}}
		for _, m := range members {
			iface.GetBond().BondedInterfaces = append(iface.GetBond().BondedInterfaces, &vpp_interfaces.BondLink_BondedInterface{Name: m})
		}
		return validateBond(iface)
	}
	const key = "iK2Xs5Jd7nCqTVUQYZJvE7IMQUYDZIYDHoPTYGmqbFk="
	for field, err := range map[string]error{
		"rx_modes.mode":          rx(vpp_interfaces.Interface_TAP, &mode{}),
		"rx_modes.queue":         rx(vpp_interfaces.Interface_TAP, &mode{Mode: 1, Queue: 1}, &mode{Mode: 2, Queue: 1}),
		"rx_modes.default_mode":  rx(vpp_interfaces.Interface_TAP, &mode{Mode: 1, DefaultMode: true}, &mode{Mode: 2, DefaultMode: true}),
		"gre.tunnel_type":        validateGRE(&vpp_interfaces.GreLink{SrcAddr: "10.0.0.1", DstAddr: "10.0.0.2"}),
		"gre.dst_addr":           validateGRE(&vpp_interfaces.GreLink{TunnelType: 1, SrcAddr: "10.0.0.1"}),
		"ipip.src_addr":          validateIPIP(&vpp_interfaces.IPIPLink{TunnelMode: vpp_interfaces.IPIPLink_POINT_TO_MULTIPOINT}),
		"ipip.dst_addr":          validateIPIP(&vpp_interfaces.IPIPLink{SrcAddr: "10.0.0.1", DstAddr: "::1"}),
		"gtpu.multicast":         validateGTPU(&vpp_interfaces.GtpuLink{SrcAddr: "10.0.0.1", DstAddr: "239.0.0.1"}),
		"vxlan.multicast":        validateTunnel(&vpp_interfaces.VxlanLink{SrcAddress: "10.0.0.1", DstAddress: "10.0.0.2", Multicast: "eth0"}),
		"wireguard.private_key":  validateWireGuard(&vpp_interfaces.WireguardLink{PrivateKey: "short", Port: 1, SrcAddr: "10.0.0.1"}),
		"wireguard.port":         validateWireGuard(&vpp_interfaces.WireguardLink{PrivateKey: key, SrcAddr: "10.0.0.1"}),
		"rdma.host_if_name":      validateRDMA(&vpp_interfaces.RDMALink{}),
		"rdma.rxq_num":           validateRDMA(&vpp_interfaces.RDMALink{HostIfName: "eth0", RxqNum: 65536}),
		"rdma.rxq_size":          validateRDMA(&vpp_interfaces.RDMALink{HostIfName: "eth0", RxqSize: 1000}),
		"bond.bonded_interfaces": bond("a", "a"),
		"bond.mode":              validateBond(&vpp_interfaces.Interface{Link: &vpp_interfaces.Interface_Bond{Bond: &vpp_interfaces.BondLink{}}}),
	} {
		var iv *kvscheduler.InvalidValueError
		if !errors.As(err, &iv) || len(iv.Fields) != 1 || iv.Fields[0] != field {
			t.Errorf("got %v, want an error about %s", err, field)
		}
	}
	for _, err := range []error{
		rx(vpp_interfaces.Interface_DPDK, &mode{Mode: vpp_interfaces.Interface_RxMode_INTERRUPT}), bond("bond"),
	} {
		if err == nil {
			t.Error("a mistake is taken")
		}
	}
	for _, err := range []error{
		rx(vpp_interfaces.Interface_DPDK, &mode{Mode: vpp_interfaces.Interface_RxMode_POLLING}), bond("a", "b"),
		validateTunnel(&vpp_interfaces.VxlanLink{SrcAddress: "10.0.0.1", DstAddress: "239.0.0.1", Multicast: "eth0"}),
		validateRDMA(&vpp_interfaces.RDMALink{HostIfName: "eth0", RxqSize: 1024}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

// Interface names may look like parts of keys.
func TestKeysOfOptions(t *testing.T) {
	matchers := map[string]func(string) bool{
		"address": isAddressKey, "vrf": isVRFKey, "has address": isHasAddressKey, "unnumbered": isUnnumberedKey,
		"client": isDHCPClientKey, "lease": isDHCPLeaseKey, "ip6nd": isIP6NDKey, "link state": isLinkStateKey, "rx modes": isRxModesKey, "rx placement": isRxPlacementKey,
	}
	for _, name := range []string{"if", "a/rx-modes", "a/rx-placement/queue/1", "ip6nd/x", "a/link-state/UP"} {
		for want, key := range map[string]string{
			"unnumbered": models.UnnumberedInterfaceKey(name), "client": models.DHCPClientKey(name), "ip6nd": models.IP6NDKey(name),
			"has address": models.VPPInterfaceHasAddressKey(name), "address": models.VPPInterfaceAddressKey(name, models.AddrStatic, "10.0.0.1/24"),
		} {
			var got []string
			for what, matches := range matchers {
				if matches(key) {
					got = append(got, what)
				}
			}
			if len(got) != 1 || got[0] != want {
				t.Errorf("%s is a key of %v, want %s", key, got, want)
			}
		}
	}
	for key, matches := range map[string]func(string) bool{
		models.LinkStateKey("Gigabit0/8", true): isLinkStateKey, models.LinkStateKey("Gigabit0/8", false): isLinkStateKey,
		models.RxModesKey("Gigabit0/8"): isRxModesKey, models.RxPlacementKey("Gigabit0/8", 3): isRxPlacementKey,
	} {
		if !matches(key) {
			t.Errorf("%s is not recognised", key)
		}
	}
}
