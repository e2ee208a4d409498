package vpptest

import (
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/api"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

func name(prefix string, n uint32) string { return fmt.Sprintf("%s%d", prefix, n) }

// version is the index of an IP version.
func version(v6 bool) int {
	if v6 {
		return 1
	}
	return 0
}

func addrOf(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP6 {
		return netip.AddrFrom16(a.Un.GetIP6())
	}
	return netip.AddrFrom4(a.Un.GetIP4())
}

// uncleared returns an address like VPP sends it in places, with random bytes after an IPv4
// address.
func uncleared(a ip_types.Address) ip_types.Address {
	if a.Af == ip_types.ADDRESS_IP4 {
		ip := a.Un.GetIP4()
		for i := copy(a.Un.XXX_UnionData[:], ip[:]); i < len(a.Un.XXX_UnionData); i++ {
			a.Un.XXX_UnionData[i] = 0xdb
		}
	}
	return a
}

func addressOf(a netip.Addr) (r ip_types.Address) {
	if a.Is6() {
		r.Af = ip_types.ADDRESS_IP6
		r.Un.SetIP6(a.As16())
		return r
	}
	r.Un.SetIP4(a.As4())
	return r
}

// numbered reports whether the interface has an address of the version.
func (i *swInterface) numbered(v6 bool) bool {
	return slices.ContainsFunc(i.addrs, func(p netip.Prefix) bool { return p.Addr().Is6() == v6 })
}

// addAddress refuses overlapping networks in a table, except equal ones of one interface.
func (c *call) addAddress(i *swInterface, addr netip.Prefix) (code api.VPPApiError) {
	taken := api.VPPApiError(api.ADDRESS_IN_USE)
	v6 := addr.Addr().Is6()
	if v6 {
		taken = api.DUPLICATE_IF_ADDRESS
		if addr.Addr().IsLinkLocalUnicast() {
			if addr.Bits() != 128 {
				return api.ADDRESS_LENGTH_MISMATCH
			}
			i.ipv6 = max(i.ipv6, 1)
			i.linkLocal = addr.Addr()
			return 0
		}
	}
	c.ifs.all(func(o *swInterface) {
		if o.tables[version(v6)] != i.tables[version(v6)] {
			return
		}
		for _, have := range o.addrs {
			same := o == i && have.Bits() == addr.Bits() && have.Addr() != addr.Addr()
			if have.Overlaps(addr) && !same {
				code = taken
			}
		}
	})
	if code == 0 {
		i.addrs = append(i.addrs, addr)
		if v6 {
			i.enableIPv6()
		}
	}
	return code
}

// enableIPv6 assigns a link-local address if the interface has none.
func (i *swInterface) enableIPv6() {
	if i.ipv6++; i.ipv6 > 1 {
		return
	}
	m := i.L2Address
	i.linkLocal = netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
}

func (i *swInterface) disableIPv6() {
	if i.ipv6--; i.ipv6 == 0 {
		i.linkLocal = netip.Addr{}
	}
}

func (c *call) deleteAddress(i *swInterface, addr netip.Prefix) api.VPPApiError {
	if addr.Addr().Is6() && addr.Addr().IsLinkLocalUnicast() && addr.Bits() == 128 {
		if addr.Addr() == i.linkLocal {
			return api.ADDRESS_NOT_DELETABLE
		}
		return api.ADDRESS_NOT_FOUND_FOR_INTERFACE
	}
	at := slices.Index(i.addrs, addr)
	if at < 0 {
		return api.ADDRESS_NOT_FOUND_FOR_INTERFACE
	}
	i.addrs = slices.Delete(i.addrs, at, at+1)
	if addr.Addr().Is6() {
		i.disableIPv6()
	}
	return 0
}

func handleAddresses() {
	onInterface(func(r *interfaces.SwInterfaceAddDelAddress) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceAddDelAddress, _ *interfaces.SwInterfaceAddDelAddressReply) api.VPPApiError {
			addr := netip.PrefixFrom(addrOf(req.Prefix.Address), int(req.Prefix.Len))
			switch {
			case req.DelAll:
				i.addrs = nil
				return 0
			case req.IsAdd:
				return c.addAddress(i, addr)
			}
			return c.deleteAddress(i, addr)
		})
	onInterface(func(r *interfaces.SwInterfaceSetTable) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceSetTable, _ *interfaces.SwInterfaceSetTableReply) api.VPPApiError {
			if tableExists != nil && !tableExists(c, req.VrfID, req.IsIPv6) {
				return api.NO_SUCH_FIB
			}
			if i.numbered(req.IsIPv6) {
				return api.ADDRESS_FOUND_FOR_INTERFACE
			}
			if lender := c.ifs.iface(i.borrows); lender != nil && lender.numbered(req.IsIPv6) {
				return api.ADDRESS_FOUND_FOR_INTERFACE
			}
			i.tables[version(req.IsIPv6)] = req.VrfID
			return 0
		})
	onInterface(func(r *interfaces.SwInterfaceGetTable) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *interfaces.SwInterfaceGetTable, reply *interfaces.SwInterfaceGetTableReply) api.VPPApiError {
			reply.VrfID = i.tables[version(req.IsIPv6)]
			return 0
		})
	on(func(c *call, req *interfaces.SwInterfaceSetUnnumbered, _ *interfaces.SwInterfaceSetUnnumberedReply) api.VPPApiError {
		borrower, lender := c.ifs.iface(req.UnnumberedSwIfIndex), c.ifs.iface(req.SwIfIndex)
		switch {
		case borrower == nil:
			return api.INVALID_SW_IF_INDEX
		case !req.IsAdd:
			borrower.borrows = noIndex
			return 0
		case lender == nil:
			return api.INVALID_SW_IF_INDEX_2
		case lender.tables != borrower.tables:
			return api.UNEXPECTED_INTF_STATE
		}
		borrower.borrows = req.SwIfIndex
		return 0
	})
	onInterface(func(r *ip.SwInterfaceIP6EnableDisable) index { return r.SwIfIndex },
		func(c *call, i *swInterface, req *ip.SwInterfaceIP6EnableDisable, _ *ip.SwInterfaceIP6EnableDisableReply) api.VPPApiError {
			switch was := i.ipv6; {
			case req.Enable:
				i.enableIPv6()
				if was > 0 {
					return api.VALUE_EXIST
				}
			case was == 0:
				return api.IP6_NOT_ENABLED
			default:
				i.disableIPv6()
			}
			return 0
		})
	onInterface(func(r *ip.SwInterfaceIP6GetLinkLocalAddress) index { return r.SwIfIndex },
		func(c *call, i *swInterface, _ *ip.SwInterfaceIP6GetLinkLocalAddress, reply *ip.SwInterfaceIP6GetLinkLocalAddressReply) api.VPPApiError {
			if !i.linkLocal.IsValid() {
				return api.IP6_NOT_ENABLED
			}
			reply.IP = i.linkLocal.As16()
			return 0
		})
	onDump(func(c *call, req *ip.IPAddressDump, send func(*ip.IPAddressDetails)) {
		i := c.ifs.iface(req.SwIfIndex)
		if i == nil {
			return
		}
		for _, a := range i.addrs {
			if a.Addr().Is6() == req.IsIPv6 {
				send(&ip.IPAddressDetails{SwIfIndex: i.SwIfIndex, Prefix: ip_types.AddressWithPrefix{Address: addressOf(a.Addr()), Len: uint8(a.Bits())}})
			}
		}
	})
	onDump(func(c *call, req *ip.IPUnnumberedDump, send func(*ip.IPUnnumberedDetails)) {
		c.ifs.all(func(i *swInterface) {
			if i.borrows != noIndex && (req.SwIfIndex == noIndex || req.SwIfIndex == i.SwIfIndex) {
				send(&ip.IPUnnumberedDetails{SwIfIndex: i.SwIfIndex, IPSwIfIndex: i.borrows})
			}
		})
	})
}
