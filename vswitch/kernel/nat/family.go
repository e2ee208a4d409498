package nat

import (
	"net/netip"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// natFamily is an IP version, with the differences of its table. The key of a service starts in
// register 0: address, protocol and port. Clients and backends are in the registers behind it.
type natFamily struct {
	proto               byte
	table               *nftables.Table
	model               string // model of its values, for messages
	regs                uint32
	source, destination uint32
	openedBy, openedTo  uint32 // source and destination of a connection, NFT_CT_SRC_IP, …
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
	nothing             string
}

var (
	nat4 = newNATFamily(natFamily{
		proto: unix.NFPROTO_IPV4, table: &nftables.Table{Name: natTable, Family: nftables.TableFamilyIPv4}, model: "DNat44",
		regs: 1, source: 12, destination: 16, openedBy: 19, openedTo: 20, addr: nftables.TypeIPAddr,
	}, nftables.TypeMark)
	nat6 = newNATFamily(natFamily{
		proto: unix.NFPROTO_IPV6, table: &nftables.Table{Name: natTable, Family: nftables.TableFamilyIPv6}, model: "DNat66",
		regs: 4, source: 8, destination: 24, openedBy: 21, openedTo: 22, addr: nftables.TypeIP6Addr,
	}, nftables.TypeIP6Addr)
)

// newNATFamily builds the key types of sets and maps. filler is as long as an address.
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

// Registers behind the key of a service: a client's address or a slot number, then a backend.
func (f *natFamily) clientReg() uint32  { return f.regs + 2 }
func (f *natFamily) backendReg() uint32 { return 2*f.regs + 2 }

func (f *natFamily) loadAddress(offset, r uint32) expr.Any {
	return &expr.Payload{DestRegister: reg(r), Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4 * f.regs}
}

// loadService loads the key of the packet's destination service, or with the other offsets its
// source service.
func (f *natFamily) loadService(addr, port uint32) []nft.Word {
	return words(f.loadAddress(addr, 0), loadProtocol(f.regs), loadPort(port, f.regs+1))
}

func (f *natFamily) toService() []nft.Word { return f.loadService(f.destination, offsetDstPort) }

// translate sets the source or destination of the connection. withPort: the port is in the register
// after the address.
func (f *natFamily) translate(typ expr.NATType, r uint32, withPort bool) expr.Any {
	n := &expr.NAT{Type: typ, Family: uint32(f.proto), RegAddrMin: reg(r)}
	if withPort {
		n.RegProtoMin, n.Specified = reg(r+f.regs), true
	}
	return n
}

// sourceFrom translates sources to a range of addresses, persistently for each source.
func (f *natFamily) sourceFrom(first, last netip.Addr) []nft.Word {
	n := &expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.proto), RegAddrMin: reg(0)}
	list := words(&expr.Immediate{Register: reg(0), Data: first.AsSlice()})
	if last != first {
		list = append(list, words(&expr.Immediate{Register: reg(f.regs), Data: last.AsSlice()})...)
		n.RegAddrMax, n.Persistent = reg(f.regs), true
	}
	return append(list, nft.Known{Any: n})
}

// sharedOut matches one of several equal, disjoint parts of all sources. The seed is the same in
// all rules.
func (f *natFamily) sharedOut(part, parts int) []nft.Word {
	const seed = 0x636f6e74
	return words(
		f.loadAddress(f.source, 0),
		&expr.Hash{SourceRegister: reg(0), DestRegister: reg(f.regs), Length: 4 * f.regs, Modulus: uint32(parts), Seed: seed, Type: expr.HashTypeJenkins},
		equal(f.regs, native32(uint32(part))),
	)
}
