package nat

import (
	"net/netip"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// natFamily is an IP version, with what is different in the table for it. The key of a
// service, which begins in register 0, is an address, the protocol and the port; clients
// and backends are in the registers behind it.
type natFamily struct {
	proto byte
	table *nftables.Table
	model string // of values, for people
	// regs is how many registers an address takes.
	regs                uint32
	source, destination uint32 // offsets in the header
	openedTo            uint32 // the key of conntrack
	addr                nftables.SetDatatype
	service             nftables.SetDatatype
	protocol            nftables.SetDatatype
	backend             nftables.SetDatatype
	sticky              nftables.SetDatatype
	balance             nftables.SetDatatype
	affinity            nftables.SetDatatype
	// For session affinity: the port of a value is a hash of the label, the protocol and the port.
	clients, remembered nftables.SetDatatype
	ported, usable      nftables.SetDatatype
	self                nftables.SetDatatype
	serviceLength       int
	// nothing fills the registers in front of a backend, see natState.balance.
	nothing string
}

var (
	nat4 = newNATFamily(natFamily{
		proto: unix.NFPROTO_IPV4, table: &nftables.Table{Name: natTable, Family: nftables.TableFamilyIPv4}, model: "DNat44",
		regs: 1, source: 12, destination: 16, openedTo: 20, addr: nftables.TypeIPAddr,
	}, nftables.TypeMark)
	nat6 = newNATFamily(natFamily{
		proto: unix.NFPROTO_IPV6, table: &nftables.Table{Name: natTable, Family: nftables.TableFamilyIPv6}, model: "DNat66",
		regs: 4, source: 8, destination: 24, openedTo: 22, addr: nftables.TypeIP6Addr,
	}, nftables.TypeIP6Addr)
)

// newNATFamily makes the types of the keys of sets and maps; filler is one as long as an
// address.
func newNATFamily(f natFamily, filler nftables.SetDatatype) *natFamily {
	concat := nftables.MustConcatSetType
	f.service = concat(f.addr, nftables.TypeInetProto, nftables.TypeInetService)
	f.protocol = concat(f.addr, nftables.TypeInetProto)
	f.backend = concat(f.addr, nftables.TypeInetService)
	f.sticky = concat(filler, f.addr, nftables.TypeInetService)
	f.balance = concat(f.addr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark)
	f.affinity = concat(f.addr, nftables.TypeInetProto, nftables.TypeInetService, f.addr)
	f.clients = concat(nftables.TypeMark, nftables.TypeInetProto, nftables.TypeInetService, f.addr)
	f.remembered = concat(nftables.TypeMark, f.addr, nftables.TypeInetService)
	f.ported = concat(nftables.TypeMark, nftables.TypeMark, nftables.TypeInetProto, nftables.TypeInetService)
	f.usable = concat(f.addr, nftables.TypeInetProto, nftables.TypeInetService, f.addr, nftables.TypeInetService)
	f.self = concat(f.addr, nftables.TypeInetProto, nftables.TypeInetService, f.addr, f.addr)
	f.serviceLength = int(f.service.Bytes)
	f.nothing = string(make([]byte, f.addressLength()))
	return &f
}

func (f *natFamily) addressLength() int { return int(4 * f.regs) }

func (f *natFamily) batch() *nft.Batch { return &nft.Batch{Table: natTable, Family: f.proto} }

// Registers of what is behind the key of a service: the address of a client or the
// number of a slot, then a backend.
func (f *natFamily) clientReg() uint32  { return f.regs + 2 }
func (f *natFamily) backendReg() uint32 { return 2*f.regs + 2 }

func (f *natFamily) loadAddress(offset, r uint32) expr.Any {
	return &expr.Payload{DestRegister: reg(r), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4 * f.regs}
}

// loadService loads the key of the service that a packet is sent to, or with the other
// end, that it comes from.
func (f *natFamily) loadService(addr, port uint32) []nft.Word {
	return words(f.loadAddress(addr, 0), loadProtocol(f.regs), loadPort(port, f.regs+1))
}

func (f *natFamily) toService() []nft.Word { return f.loadService(f.destination, offsetDstPort) }

// translate gives the connection another source or destination; withPort: the
// register after the address holds the port.
func (f *natFamily) translate(typ expr.NATType, r uint32, withPort bool) expr.Any {
	n := &expr.NAT{Type: typ, Family: uint32(f.proto), RegAddrMin: reg(r)}
	if withPort {
		n.RegProtoMin, n.Specified = reg(r+f.regs), true
	}
	return n
}

// sourceFrom translates sources to a range of addresses, the same for each source.
func (f *natFamily) sourceFrom(first, last netip.Addr) []nft.Word {
	n := &expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.proto), RegAddrMin: reg(0)}
	list := words(&expr.Immediate{Register: reg(0), Data: first.AsSlice()})
	if last != first {
		list = append(list, words(&expr.Immediate{Register: reg(f.regs), Data: last.AsSlice()})...)
		n.RegAddrMax, n.Persistent = reg(f.regs), true
	}
	return append(list, nft.Known{Any: n})
}

// sharedOut matches one of several equal parts of all sources. The seed is the
// same in all rules: the parts do not overlap.
func (f *natFamily) sharedOut(part, parts int) []nft.Word {
	const seed = 0x636f6e74
	return words(
		f.loadAddress(f.source, 0),
		&expr.Hash{SourceRegister: reg(0), DestRegister: reg(f.regs), Length: 4 * f.regs, Modulus: uint32(parts), Seed: seed, Type: expr.HashTypeJenkins},
		equal(f.regs, native32(uint32(part))),
	)
}
