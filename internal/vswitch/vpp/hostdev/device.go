package hostdev

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/contiv/contiv/internal/netlink/shield"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is the network namespace of the VPP process, with the devices that it attaches to. The
// caller closes it soon, because VPP may restart elsewhere.
type Namespace struct {
	*netlink.Handle
	ns  netns.NsHandle
	Pid int
}

// Of opens VPP's namespace. It is nil if VPP is this process, as in simulations, which have no
// devices.
func Of(vpp *session.Session) (*Namespace, error) {
	l, err := vpp.Link()
	if err != nil {
		return nil, err
	}
	pid, err := l.Peer()
	if err != nil {
		return nil, err
	}
	if pid == os.Getpid() {
		return nil, nil
	}
	if pid == 0 {
		return nil, errors.New("VPP's network namespace cannot be opened: run the agent in VPP's PID namespace or the host's")
	}
	h, err := Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("opening VPP's network namespace: %w", err)
	}
	h.Pid = pid
	return h, nil
}

// Open opens the namespace at a path.
func Open(path string) (*Namespace, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, err
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		ns.Close()
		return nil, err
	}
	return &Namespace{Handle: h, ns: ns}, nil
}

// NS returns the open namespace for other packages.
func (h *Namespace) NS() netns.NsHandle { return h.ns }

func (h *Namespace) Close() {
	if h != nil {
		h.Handle.Close()
		h.ns.Close()
	}
}

// Device returns a device by name; nil if none.
func (h *Namespace) Device(name string) (netlink.Link, error) {
	if h == nil {
		return nil, nil
	}
	dev, err := h.LinkByName(name)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up device %s: %w", name, err)
	}
	return dev, nil
}

// AliasLinux starts the aliases of Linux interfaces of the model.
const AliasLinux = "contiv:linux/"

// DeviceOfLinuxInterface returns the device of a Linux interface; nil if none.
func (h *Namespace) DeviceOfLinuxInterface(name string) (netlink.Link, error) {
	if h == nil {
		return nil, nil
	}
	devs, err := h.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	for _, dev := range devs {
		if dev.Attrs().Alias == AliasLinux+name {
			return dev, nil
		}
	}
	return nil, nil
}

// Leased reports whether a device's address expires unless the host renews it.
func (h *Namespace) Leased(dev netlink.Link) (bool, error) {
	addresses, err := h.AddrList(dev, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return false, fmt.Errorf("reading the addresses of device %s: %w", dev.Attrs().Name, err)
	}
	return slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_PERMANENT == 0 }), nil
}

// PacketSockets returns the indexes of devices with bound packet sockets.
func (h *Namespace) PacketSockets() (map[int]bool, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/packet", h.Pid))
	if err != nil {
		return nil, fmt.Errorf("reading which devices VPP is attached to: %w", err)
	}
	bound := map[int]bool{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			if i, err := strconv.Atoi(fields[4]); err == nil {
				bound[i] = true
			}
		}
	}
	return bound, nil
}

// addrGenModeNone is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const addrGenModeNone = 1

// Silence stops the host's stack from sending IPv6 by itself on an unused device: link-local
// addresses and related packets. A packet socket sees them as if the other end had sent them.
func (h *Namespace) Silence(dev netlink.Link) error {
	failed := func(err error) error {
		return fmt.Errorf("keeping the host from sending IPv6 by itself on device %s: %w", dev.Attrs().Name, err)
	}
	if err := h.LinkSetIP6AddrGenMode(dev, addrGenModeNone); errors.Is(err, unix.EAFNOSUPPORT) { // no IPv6 there
		return nil
	} else if err != nil {
		return failed(err)
	}
	addresses, err := h.AddrList(dev, netlink.FAMILY_V6)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return failed(err)
	}
	for _, a := range addresses {
		if !a.IP.Equal(linkLocal(dev.Attrs().HardwareAddr)) {
			continue
		}
		if err := h.AddrDel(dev, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return failed(err)
		}
	}
	return nil
}

// linkLocal returns the link-local address that the kernel derives from a MAC address; nil if it is
// none.
func linkLocal(mac net.HardwareAddr) net.IP {
	if len(mac) != 6 {
		return nil
	}
	return net.IP{0xfe, 0x80, 0, 0, 0, 0, 0, 0, mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]}
}

// CompleteChecksums makes the kernel compute the checksums of packets sent by a device, even if the
// other end does not need them.
func (h *Namespace) CompleteChecksums(device string) error {
	socket, err := nl.GetNetlinkSocketAt(h.ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer socket.Close()
	value := [2]uint32{unix.ETHTOOL_STXCSUM, 0} // struct ethtool_value
	request := struct {
		name [unix.IFNAMSIZ]byte
		data *[2]uint32
		_    [16]byte
	}{data: &value}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket.GetFd()), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("switching checksum offloading of device %s off: %w", device, errno)
	}
	return nil
}

// The host's stack must not handle packets of a device that VPP has taken over.

// Shield hides a device's received packets from the host's stack.
func (h *Namespace) Shield(device string) error {
	if err := shield.On(h.ns, device, shield.Passed{}); err != nil {
		return fmt.Errorf("shielding the host's stack from packets of device %s by nftables: %w", device, err)
	}
	return nil
}

// Unshield ends that.
func (h *Namespace) Unshield(device string) error {
	if err := shield.Off(h.ns, device); err != nil {
		return fmt.Errorf("returning packets of device %s to the host's stack: %w", device, err)
	}
	return nil
}

// MacOf returns the hardware address of a device; nil if none.
func MacOf(dev netlink.Link) net.HardwareAddr {
	if dev == nil || len(dev.Attrs().HardwareAddr) != 6 {
		return nil
	}
	return dev.Attrs().HardwareAddr
}
