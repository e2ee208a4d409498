package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

// AddressDescriptor is the name of the descriptor of interface addresses.
const AddressDescriptor = "linux-interface-address"

const (
	interfaceKeyPrefix = "linux/interface/"
	addressKeyPart     = "/address/"
	addressKeyExample  = "linux/interface/eth0/address/static/10.0.0.1/24"
)

// addressDescriptor describes the addresses that interfaces derive. The key holds everything, so
// two values of one key never differ.
func (p *Plugin) addressDescriptor() kvscheduler.Descriptor[*linuxInterface, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[*linuxInterface, kvscheduler.NoMetadata]{
		Name:         AddressDescriptor,
		Keys:         kvscheduler.KeySpace{Prefix: interfaceKeyPrefix, Match: isAddressKey, Example: addressKeyExample},
		Equivalent:   func(string, *linuxInterface, *linuxInterface) bool { return true },
		Create:       p.createAddress,
		Delete:       p.deleteAddress,
		Retriable:    retriable,
		Dependencies: addressDependencies,
	}
}

func isAddressKey(key string) bool {
	_, _, _, ok := parseAddressKey(key)
	return ok
}

func parseAddressKey(key string) (iface, source, addr string, ok bool) {
	rest, ok := strings.CutPrefix(key, interfaceKeyPrefix)
	if !ok || strings.HasPrefix(key, hostNameKeyPrefix) {
		return "", "", "", false
	}
	at := strings.LastIndex(rest, addressKeyPart)
	if at <= 0 {
		return "", "", "", false
	}
	source, addr, ok = strings.Cut(rest[at+len(addressKeyPart):], "/")
	switch source {
	case models.AddrStatic, models.AddrFromDHCP, models.AddrAllocRef, models.AddrExisting:
		return rest[:at], source, addr, ok && addr != ""
	}
	return "", "", "", false
}

// addressDependencies returns what an address depends on. An address of type EXISTING exists once
// Watch, which sees only the agent's own namespace, has reported it.
func addressDependencies(key string, v *linuxInterface) []kvscheduler.Dependency {
	iface, source, addr, _ := parseAddressKey(key)
	own := v.GetNamespace().GetType() == linux_namespace.NetNamespace_UNDEFINED
	if source == models.AddrAllocRef {
		return netalloc.Dependency("address", addr, iface)
	}
	if source != models.AddrExisting || !isExisting(v) || !own {
		return nil
	}
	return []kvscheduler.Dependency{{
		Label: "address-assigned-to-interface", Key: models.LinuxHostNameAddressKey(deviceName(v), addr),
	}}
}

func (p *Plugin) createAddress(_ context.Context, key string, v *linuxInterface) (none kvscheduler.NoMetadata, err error) {
	_, source, addr, _ := parseAddressKey(key)
	if source == models.AddrExisting {
		return none, nil
	}
	prefix, err := p.addressOf(addr, v)
	if err != nil {
		return none, fmt.Errorf("address of interface %s: %w", v.GetName(), err)
	}
	err = p.onDevice(v, func(at *location) error {
		noDAD := aloneOnItsLink(v)
		add := func() error {
			if err := at.ns.AddAddress(addressOn(at.index, prefix, noDAD)); !rtnl.Exists(err) {
				return err
			}
			return nil
		}
		err := add()
		if prefix.Addr().Is6() && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EOPNOTSUPP)) {
			if err := enableIPv6(at, at.ns != p.namespaces.Own); err != nil {
				return fmt.Errorf("enable IPv6 in %s: %w", at.ns.Name, err)
			}
			err = add()
		}
		if err != nil {
			return fmt.Errorf("in %s: %w", at.ns.Name, err)
		}
		return nil
	})
	if err != nil {
		return none, fmt.Errorf("add address %s to interface %s: %w", addr, v.GetName(), err)
	}
	p.inventory.setAddress(v.GetName(), prefix, true)
	return none, nil
}

// aloneOnItsLink reports whether the link leads to the vswitch, which routes, so that no other host
// on it can have the same address. Duplicate address detection would delay the pod's use of its
// IPv6 address by a second or two.
func aloneOnItsLink(v *linuxInterface) bool {
	switch v.GetType() {
	case linux_interfaces.Interface_TAP_TO_VPP, linux_interfaces.Interface_VETH:
		return true
	}
	return false
}

// addressOn returns the address in the kernel's form, with our mark. noDAD makes an IPv6 address
// usable at once, without duplicate address detection.
func addressOn(index int, prefix netip.Prefix, noDAD bool) rtnl.Address {
	a := rtnl.Address{Index: index, Prefix: prefix, Proto: ownProtocol}
	if noDAD && prefix.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if prefix.Addr().Is4() && prefix.Bits() < 31 { // RFC 3021
		a.Broadcast = broadcast(prefix)
	}
	return a
}

func broadcast(prefix netip.Prefix) netip.Addr {
	ip := prefix.Addr().As4()
	mask := net.CIDRMask(prefix.Bits(), 32)
	for i := range ip {
		ip[i] |= ^mask[i]
	}
	return netip.AddrFrom4(ip)
}

func (p *Plugin) addressOf(text string, v *linuxInterface) (netip.Prefix, error) {
	text, err := p.alloc.WithMask(text, v.GetName())
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.ParsePrefix(text)
}

func (p *Plugin) deleteAddress(_ context.Context, key string, v *linuxInterface, _ kvscheduler.NoMetadata) error {
	_, source, addr, _ := parseAddressKey(key)
	prefix, err := p.addressOf(addr, v)
	if source == models.AddrExisting || err != nil { // nothing was allocated, so nothing was added
		return nil
	}
	p.inventory.setAddress(v.GetName(), prefix, false)
	err = p.onDevice(v, func(at *location) error { return deleteOwnAddress(at, prefix, v) })
	if err != nil && !isGone(err) {
		return fmt.Errorf("remove address %s from interface %s: %w", addr, v.GetName(), err)
	}
	return nil
}

func deleteOwnAddress(at *location, prefix netip.Prefix, v *linuxInterface) error {
	addresses, err := at.ns.AllAddresses()
	if err != nil {
		return err
	}
	marks := false // the kernel knows address protocols
	var found *rtnl.Address
	for i, a := range addresses {
		marks = marks || a.Proto != 0
		if a.Index == at.index && a.Prefix == prefix {
			found = &addresses[i]
		}
	}
	if found == nil {
		return nil
	}
	ours := found.Proto == ownProtocol
	if !marks {
		ours = !mayNotSetDown(v)
	}
	if !ours {
		return nil
	}
	return at.ns.DelAddress(*found)
}

// enableIPv6 enables IPv6 on the device after the kernel has refused an address. With everywhere,
// it enables IPv6 on all present and future devices of the namespace.
func enableIPv6(at *location, everywhere bool) error {
	devices := []string{deviceName(at.value)}
	if everywhere {
		devices = append([]string{"all", "default"}, devices...)
	}
	return at.ns.Enter(func() error {
		for _, device := range devices {
			path := "/proc/sys/net/ipv6/conf/" + device + "/disable_ipv6"
			state, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(state)) == "0" {
				continue
			}
			// Checked only after an error, because the kernel searches all network namespaces for
			// it.
			if _, none := os.Stat("/proc/sys/net/ipv6"); err != nil && errors.Is(none, os.ErrNotExist) {
				return fmt.Errorf("this kernel has no IPv6: %w", kvscheduler.ErrUnsupported)
			}
			if err := os.WriteFile(path, []byte("0"), 0); err != nil {
				return err
			}
		}
		return nil
	})
}
