package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Options of a VSwitch. The zero value is usable.
type Options struct {
	// NetNS is the path of the network namespace to work in, such as
	// /var/run/netns/node1. Empty: that of the process.
	NetNS string
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// VSwitch is the Linux kernel as a vswitch.
type VSwitch struct {
	vswitch.NoExtras

	ns             *namespace
	nl             *netlink.Handle
	raw            *rtnl
	remover        *remover
	log            *slog.Logger
	reg            *registry
	dev            *deviceCache
	nat            natDriver
	acl            aclCache
	vrf            vrfDriver
	srMu           sync.Mutex // changes of segment routing
	strictRPFilter bool
	receiveBuffer  int
	dhcp           *dhcpClients
	reports        vswitch.StateReports
	marks          bool // the kernel stores the protocol of addresses

	watchers sync.WaitGroup
	closing  chan struct{}
	close    sync.Once
}

var _ vswitch.VSwitch = (*VSwitch)(nil)

// New prepares the network namespace for forwarding and returns a vswitch that
// works in it; Close it. Nothing else is created or changed.
func New(opts Options) (*VSwitch, error) {
	v := &VSwitch{log: opts.Logger, reg: newRegistry(), dev: newDeviceCache(), closing: make(chan struct{}), receiveBuffer: receiveBuffer, dhcp: newDHCPClients(), marks: marksAddresses()}
	if v.log == nil {
		v.log = slog.Default()
	}
	if err := v.open(opts.NetNS); err != nil {
		v.release()
		return nil, err
	}
	if err := errors.Join(v.enableForwarding(), v.openVRFs()); err != nil {
		v.release()
		return nil, err
	}
	if !v.marks {
		v.log.Warn("this kernel cannot mark addresses (IFA_PROTO, Linux 5.18): after a restart, addresses that are no " +
			"longer wanted stay, and unnumbered interfaces are set again; use a newer kernel")
	}
	return v, nil
}

// marksAddresses tells if the kernel stores the protocol of addresses.
func marksAddresses() bool {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		return true
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return true
	}
	return major > 5 || major == 5 && minor >= 18
}

func (v *VSwitch) open(path string) (err error) {
	if v.ns, err = openNamespace(path); err != nil {
		return err
	}
	if v.nl, err = netlink.NewHandleAt(v.ns.handle, unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	if v.raw, err = newRtnl(v.ns.handle); err != nil {
		return fmt.Errorf("opening netlink: %w", err)
	}
	v.remover = newRemover(v.ns.handle)
	v.nat.ns = v.ns
	return v.nat.gen.open(v.ns.handle)
}

func (v *VSwitch) release() {
	if v.nl != nil {
		v.nl.Close()
	}
	if v.raw != nil {
		v.raw.close()
	}
	if v.remover != nil {
		v.remover.close()
	}
	v.nat.gen.close()
	v.nat.close()
	if v.ns != nil {
		v.ns.close()
	}
}

// Close ends Watch and DHCP clients and releases resources; what is configured stays.
func (v *VSwitch) Close() error {
	v.close.Do(func() {
		close(v.closing)
		v.dhcp.stop()
		v.watchers.Wait()
		v.release()
	})
	return nil
}

// Capabilities: pods' interfaces are in the node's own stack, and in its main table.
func (v *VSwitch) Capabilities() vswitch.Capabilities {
	return vswitch.Capabilities{HostStackShared: true, MultipleVRFs: false, IPv6SourceNAT: true, IPv6DNAT: true, TAPs: true}
}

func (v *VSwitch) Interfaces() vswitch.Interfaces { return interfaces{v} }
func (v *VSwitch) Bridges() vswitch.Bridges       { return bridges{v} }
func (v *VSwitch) FIB() vswitch.FIB               { return fib{v} }
func (v *VSwitch) Routes() vswitch.Routes         { return routes{v} }
func (v *VSwitch) Neighbours() vswitch.Neighbours { return neighbours{v} }
func (v *VSwitch) VRFs() vswitch.VRFs             { return vrfs{v} }
func (v *VSwitch) NAT() vswitch.NAT               { return nat{v} }
func (v *VSwitch) NAT66() vswitch.NAT66           { return nat66{v} }
func (v *VSwitch) ACLs() vswitch.ACLs             { return acls{v} }
