package nat

import (
	"slices"

	"github.com/contiv/contiv/internal/netlink/nft"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The rules that select one of several backends. With session affinity, a client has one backend
// per port of a value (vswitch.AffinityPort), shared by all services of that port:
//
//	the client's backend of the port ──usable by the service?──> there
//	   │ no
//	   ├ no backend of the port any more? forget it
//	   ├ the client's backend apart ──usable by the service?──> there
//	   └ else the slot of the client ──> there
//
// So a service with only some of the port's backends, such as the local ones, does not change a
// client's backend of the port: the client has another one apart, shared by the services of the
// scope. nat-clients maps the keys that nat-port and nat-apart hold for a service to the client's
// backend. Outsiders fill it, so the agent never lists it.
//
// These rules see the first packet of a connection, whose source may be forged. They add no client:
// they mark the connection with the key, and remember.go adds the client once the connection is
// established.
//
// Rules with affinity are expressions: the key from one map selects an element of another, which the
// language of nft(8) cannot express.

// balance adds the rules that select a backend by class. Classes without affinity come first, so that
// connections to their services skip the lookups of clients.
func (s *natState) balance(r *ruleset) {
	for _, scope := range natScopes {
		without, with := s.classesOf(scope)
		for _, c := range without {
			r.add(scope.chain(), c.name(), "dnat $endpoint to "+c.slotKey()+" map @"+c.name())
		}
		if len(with) > 0 {
			r.add(scope.chain(), "known clients", "jump "+scope.known())
		}
		for _, c := range with {
			r.addWords(scope.chain(), c.name(), s.family.slotOfClient(c), s.family.toBackend())
		}
	}
}

// classesOf returns the classes of a scope without and with affinity.
func (s *natState) classesOf(scope natScope) (without, with []natClass) {
	for _, c := range s.sortedClasses() {
		switch {
		case c.scope != scope:
		case c.timeout == 0:
			without = append(without, c)
		default:
			with = append(with, c)
		}
	}
	return without, with
}

// affinity adds the rules that look up and remember clients, if any class has affinity. They depend
// only on the timeouts: whenever a rule with nat-clients is added, the kernel visits all clients,
// which takes a second for a million.
func (s *natState) affinity(r *ruleset) {
	timeouts := map[natScope][]uint32{}
	for _, c := range s.sortedClasses() {
		if c.timeout != 0 && !slices.Contains(timeouts[c.scope], c.timeout) {
			timeouts[c.scope] = append(timeouts[c.scope], c.timeout)
		}
	}
	if len(timeouts) == 0 {
		return
	}
	for _, scope := range natScopes {
		s.known(r, scope)
	}
	s.remember(r, timeouts)
}

func (s *natState) known(r *ruleset, scope natScope) {
	f := s.family
	add := func(comment string, parts ...[]nft.Word) { r.addWords(scope.known(), comment, parts...) }
	listingWorkaround := f.listingWorkaround(foundReg)
	port, apart := f.clientKey(scope.port()), f.clientKey(scope.apart())
	client := mapped(mapClients, portReg, rememberedReg)
	service := f.load(f.serviceReg(), "$service")
	usable := slices.Concat(service, inSet(scope.usable(), f.serviceReg()), f.toBackend())
	// The service has replaced the client in the registers of IPv6. The data has no effect.
	forget := slices.Concat(f.load(portClientReg, "$client"), f.load(rememberedReg, "meta mark"), nft.Words(
		&expr.Dynset{SrcRegKey: reg(portReg), SrcRegData: reg(rememberedReg), SetName: mapClients, Operation: dynsetDelete}))
	former := append(service, nft.Known{Any: &expr.Lookup{SourceRegister: reg(f.serviceReg()), SetName: setElsewhere, Invert: true}})

	add("clients of ports", listingWorkaround, port, setMark(scope.mark(false)), client, usable)
	add("clients of former backends", listingWorkaround, port, client, former, forget)
	add("clients with another backend", listingWorkaround, port, client, setMark(scope.mark(true)))
	add("clients apart", listingWorkaround, apart, client, usable)
	add("clients of former backends apart", listingWorkaround, apart, client, forget)
}

// Registers for clients of ports. A register has four bytes; longer data takes the following
// registers, too. IPv6 needs all sixteen.
//
//	0  seconds   1  port of a value   4  client              10  filler   11  backend
//	                                     service, up to 10 ──┘
const (
	portReg       = 1
	portClientReg = portReg + 3
	rememberedReg = 10 // the data of nat-clients
	foundReg      = rememberedReg + 1
)

const dynsetDelete = 2 // NFT_DYNSET_OP_DELETE

func reg(n uint32) uint32 { return unix.NFT_REG32_00 + n }

func (f *natFamily) serviceReg() uint32 { return foundReg - f.regs - 2 }

func inSet(set string, r uint32) []nft.Word {
	return nft.Words(&expr.Lookup{SourceRegister: reg(r), SetName: set})
}

func mapped(name string, from, to uint32) []nft.Word {
	return nft.Words(&expr.Lookup{SourceRegister: reg(from), DestRegister: reg(to), IsDestRegSet: true, SetName: name})
}

// toBackend translates to the backend in the registers from foundReg.
func (f *natFamily) toBackend() []nft.Word {
	return nft.Words(&expr.NAT{
		Type: expr.NATTypeDestNAT, Family: uint32(f.proto), RegAddrMin: reg(foundReg), RegProtoMin: reg(foundReg + f.regs), Specified: true,
	})
}

// listingWorkaround works around nft 1.0, which aborts when it lists a rule that passes one map's result
// to another. nft then sees the packet's destination in the registers that a map's data overwrites
// behind a filler.
func (f *natFamily) listingWorkaround(r uint32) []nft.Word { return f.load(r, "$address . th dport") }

// portKey loads the key of a service from a map of a scope.
func (f *natFamily) portKey(ports, service string) []nft.Word {
	listingWorkaround := f.load(portReg, "meta mark . meta l4proto . th dport")
	return slices.Concat(listingWorkaround, f.load(f.serviceReg(), service), mapped(ports, f.serviceReg(), 0))
}

// clientKey loads the key of the packet's service from a map of a scope, and the client.
func (f *natFamily) clientKey(ports string) []nft.Word {
	return append(f.portKey(ports, "$service"), f.load(portClientReg, "$client")...)
}

// slotOfClient finds a backend by a hash of the client, the port and the time, which changes about
// every second: connections that a client opens at the same time come to the same backend before the
// first of them is established.
func (f *natFamily) slotOfClient(c natClass) []nft.Word {
	const seed, nanoseconds = 0x636f6e74, 1<<30 - 1
	slot := foundReg - f.regs // the filler of the class is as long as an address
	service, now := slot-f.regs-2, portClientReg+f.regs
	return slices.Concat(f.listingWorkaround(foundReg), f.clientKey(c.scope.port()), nft.Words(
		&expr.Meta{Key: nft.MetaTime, Register: reg(now)},
		&expr.Bitwise{SourceRegister: reg(now), DestRegister: reg(now), Len: 8, Mask: binaryutil.NativeEndian.PutUint64(^uint64(nanoseconds)), Xor: make([]byte, 8)},
		&expr.Hash{SourceRegister: reg(portReg), DestRegister: reg(slot), Length: 4 * (now + 2 - portReg), Modulus: c.slots, Seed: seed, Type: expr.HashTypeJenkins},
	), f.load(service, "$service"), mapped(c.name(), service, slot))
}
