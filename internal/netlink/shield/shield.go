// Package shield hides packets received by a device from the host's own stack, for a program that
// reads the device by packet sockets. Otherwise the stack would answer for its own addresses and
// refuse connections to others.
//
//	device ──> packet sockets ──> nftables chain, named like the device ──> (nothing)
package shield

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Table is the table, of the family netdev, with the chains.
const Table = "contiv-vpp"

// Passed selects the packets that the host still receives; by default, none.
type Passed struct {
	// Configuration: router advertisements and DHCP, which keep the device's addresses valid.
	Configuration bool
	// IPv4, with ARP, and IPv6: all packets of that version.
	IPv4, IPv6 bool
}

// On shields a device, or changes the passed packets.
func On(ns netns.NsHandle, device string, passed Passed) error {
	return change(ns, device, func(c *nftables.Conn, _ int) {
		chain := c.AddChain(&nftables.Chain{
			Name: device, Table: c.AddTable(&nftables.Table{Family: nftables.TableFamilyNetdev, Name: Table}),
			Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookIngress, Priority: nftables.ChainPriorityFilter,
			Policy: new(nftables.ChainPolicyDrop), Device: device,
		})
		pass := func(when bool, matches ...[]expr.Any) {
			for _, match := range matches {
				if when {
					c.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: append(match, &expr.Verdict{Kind: expr.VerdictAccept})})
				}
			}
		}
		pass(passed.Configuration, udpTo(unix.ETH_P_IP, 9, 68), udpTo(unix.ETH_P_IPV6, 6, 546), routerAdvertisement())
		pass(passed.IPv4, ofType(unix.ETH_P_IP), ofType(unix.ETH_P_ARP))
		pass(passed.IPv6, ofType(unix.ETH_P_IPV6))
	})
}

// Off removes the shield of a device, if any.
func Off(ns netns.NsHandle, device string) error {
	return change(ns, device, func(c *nftables.Conn, others int) {
		if others == 0 {
			c.DelTable(c.AddTable(&nftables.Table{Family: nftables.TableFamilyNetdev, Name: Table})) // added so that the deletion succeeds
		}
	})
}

// change removes the chain of a device; next adds changes to the same transaction.
func change(ns netns.NsHandle, device string, next func(c *nftables.Conn, others int)) error {
	c, err := nftables.New(nftables.WithNetNSFd(int(ns)))
	if err != nil {
		return err
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil {
		return err
	}
	others := 0
	for _, chain := range chains {
		switch {
		case chain.Table.Name != Table:
		case chain.Name == device:
			c.FlushChain(chain)
			c.DelChain(chain)
		default:
			others++
		}
	}
	next(c, others)
	return c.Flush()
}

// equals compares the value that an expression loads into register 1.
func equals(load expr.Any, value []byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value}}
}

func field(base expr.PayloadBase, offset uint32, value []byte) []expr.Any {
	return equals(&expr.Payload{DestRegister: 1, Base: base, Offset: offset, Len: uint32(len(value))}, value)
}

func ofType(etherType uint16) []expr.Any {
	return equals(&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1}, binary.BigEndian.AppendUint16(nil, etherType))
}

// protocol matches an IP protocol at an offset of the header.
func protocol(etherType uint16, offset uint32, number byte) []expr.Any {
	return append(ofType(etherType), field(expr.PayloadBaseNetworkHeader, offset, []byte{number})...)
}

func udpTo(etherType uint16, offset uint32, port uint16) []expr.Any {
	return append(protocol(etherType, offset, unix.IPPROTO_UDP), field(expr.PayloadBaseTransportHeader, 2, binary.BigEndian.AppendUint16(nil, port))...)
}

func routerAdvertisement() []expr.Any {
	return append(protocol(unix.ETH_P_IPV6, 6, unix.IPPROTO_ICMPV6), field(expr.PayloadBaseTransportHeader, 0, []byte{134})...)
}
