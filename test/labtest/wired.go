package labtest

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/lab"
	"github.com/vishvananda/netlink"
)

// WiredPod is a pod with a packet socket on its eth0.
type WiredPod struct {
	lab.Pod
	MAC, Gateway frames.MAC
	Addrs        []netip.Addr // without link-local addresses, IPv4 first
	Wire         *frames.Wire
}

// Wire opens a packet socket in a pod until the test ends.
func Wire(t testing.TB, pod lab.Pod) *WiredPod {
	t.Helper()
	p := &WiredPod{Pod: pod}
	err := Inside(pod.Netns, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		p.MAC = frames.MAC(link.Attrs().HardwareAddr)
		addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range addrs {
			if addr, _ := netip.AddrFromSlice(a.IP); !addr.Unmap().IsLinkLocalUnicast() {
				p.Addrs = append(p.Addrs, addr.Unmap())
			}
		}
		neighbours, neighErr := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		for _, n := range neighbours {
			if n.State&netlink.NUD_PERMANENT != 0 {
				p.Gateway = frames.MAC(n.HardwareAddr)
			}
		}
		var wireErr error
		p.Wire, wireErr = frames.NewWire("eth0")
		return errors.Join(err, neighErr, wireErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Wire.Close)
	slices.SortFunc(p.Addrs, netip.Addr.Compare)
	return p
}

// Of returns the pod's address of an IP version, which must exist.
func (p *WiredPod) Of(ipv6 bool) netip.Addr {
	return p.Addrs[slices.IndexFunc(p.Addrs, func(a netip.Addr) bool { return a.Is6() == ipv6 })]
}

// SendVXLAN sends an encapsulated frame to a node. If src is the zero Addr, the kernel chooses the
// source.
func SendVXLAN(t testing.TB, netns string, src, dst netip.Addr, frame []byte) {
	t.Helper()
	SendVXLANTo(t, netns, src, netip.AddrPortFrom(dst, 4789), frame)
}

// SendVXLANTo is SendVXLAN with another port. It ignores packets that the namespace itself drops.
func SendVXLANTo(t testing.TB, netns string, src netip.Addr, dst netip.AddrPort, frame []byte) {
	t.Helper()
	const vni = 10
	var from *net.UDPAddr
	if src.IsValid() {
		from = net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0))
	}
	err := Inside(netns, func() error {
		conn, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(dst))
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err = conn.Write(frames.VXLAN(vni, frame)); errors.Is(err, syscall.EPERM) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
