package nat

import (
	"slices"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
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

func (s *natState) balance(add adder) {
	for _, scope := range natScopes {
		s.balanceScope(scope, func(comment string, parts ...[]nft.Word) { add(scope.chain(), comment, parts...) })
	}
}

func (s *natState) balanceScope(scope natScope, add func(comment string, parts ...[]nft.Word)) {
	f := s.family
	slot, backend := f.clientReg(), f.backendReg()
	classes := s.classesOf(scope)
	for _, c := range classes { // first, so that services without affinity do not pay for it
		if c.timeout == 0 {
			add(c.name(), f.toService(), words(draw(c.slots, slot), mapped(c.name(), 0, backend), f.translate(expr.NATTypeDestNAT, backend, true)))
		}
	}
	classes = slices.DeleteFunc(classes, func(c natClass) bool { return c.timeout == 0 })
	if len(classes) > 0 {
		add("known clients", words(verdict(expr.VerdictJump, scope.known())))
	}
	for _, c := range classes {
		add(c.name(), f.slotOfClient(c), words(f.translate(expr.NATTypeDestNAT, foundReg, true)))
	}
}

// known looks up clients, in chains that do not depend on classes: whenever a rule with nat-clients
// is added, the kernel visits all clients, which takes a second for a million.
func (s *natState) known(add adder) {
	for _, scope := range natScopes {
		s.knownIn(scope, func(comment string, parts ...[]nft.Word) { add(scope.known(), comment, parts...) })
	}
}

func (s *natState) knownIn(scope natScope, add func(comment string, parts ...[]nft.Word)) {
	f := s.family
	port, apart := f.clientKey(scope.port()), f.clientKey(scope.apart())
	known := words(mapped(mapClients, portReg, rememberedReg))
	usable := slices.Concat(f.toServiceAt(f.serviceReg()), words(inSet(scope.usable(), f.serviceReg()), f.translate(expr.NATTypeDestNAT, foundReg, true)))
	// The service has replaced the client in the registers of IPv6. The data has no effect.
	forget := words(f.loadAddress(f.source, portClientReg), &expr.Meta{Key: expr.MetaKeyMARK, Register: reg(rememberedReg)}, // as placeholder
		&expr.Dynset{SrcRegKey: reg(portReg), SrcRegData: reg(rememberedReg), SetName: mapClients, Operation: dynsetDelete})

	add("clients of ports", f.placeholder(foundReg), port, setMark(scope.mark(false)), known, usable)
	add("clients of former backends", f.placeholder(foundReg), port, known, f.toServiceAt(f.serviceReg()),
		words(&expr.Lookup{SourceRegister: reg(f.serviceReg()), SetName: setElsewhere, Invert: true}), forget)
	add("clients with another backend", f.placeholder(foundReg), port, known, setMark(scope.mark(true)))
	add("clients apart", f.placeholder(foundReg), apart, known, usable)
	add("clients of former backends apart", f.placeholder(foundReg), apart, known, forget)
}

// Registers for clients of ports. IPv6 needs all sixteen.
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

func (f *natFamily) serviceReg() uint32 { return foundReg - f.regs - 2 }

func (f *natFamily) toServiceAt(r uint32) []nft.Word {
	return words(f.loadAddress(f.destination, r), loadProtocol(r+f.regs), loadPort(offsetDstPort, r+f.regs+1))
}

// placeholder works around nft 1.0, which aborts when it lists a rule that passes one map's result
// to another. nft then sees the packet's destination in the registers that a map's data overwrites
// behind a filler.
func (f *natFamily) placeholder(r uint32) []nft.Word {
	return words(f.loadAddress(f.destination, r), loadPort(offsetDstPort, r+f.regs))
}

// portKey loads the key of a service from a map of a scope.
func (f *natFamily) portKey(ports string, service []nft.Word) []nft.Word {
	list := words(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg(portReg)}, loadProtocol(portReg+1), loadPort(offsetDstPort, portReg+2)) // as placeholder
	return slices.Concat(list, service, words(mapped(ports, f.serviceReg(), 0)))
}

// clientKey loads the key of the packet's service from a map of a scope, and the client.
func (f *natFamily) clientKey(ports string) []nft.Word {
	return append(f.portKey(ports, f.toServiceAt(f.serviceReg())), words(f.loadAddress(f.source, portClientReg))...)
}

// slotOfClient finds a backend by a hash of the client, the port and the time, which changes about
// every second: connections that a client opens at the same time come to the same backend before the
// first of them is established.
func (f *natFamily) slotOfClient(c natClass) []nft.Word {
	const seed, nanoseconds = 0x636f6e74, 1<<30 - 1
	slot := foundReg - f.regs // the filler of the class is as long as an address
	service, now := slot-f.regs-2, portClientReg+f.regs
	return slices.Concat(f.placeholder(foundReg), f.clientKey(c.scope.port()), words(
		&expr.Meta{Key: nft.MetaTime, Register: reg(now)},
		&expr.Bitwise{SourceRegister: reg(now), DestRegister: reg(now), Len: 8, Mask: binaryutil.NativeEndian.PutUint64(^uint64(nanoseconds)), Xor: make([]byte, 8)},
		&expr.Hash{SourceRegister: reg(portReg), DestRegister: reg(slot), Length: 4 * (now + 2 - portReg), Modulus: c.slots, Seed: seed, Type: expr.HashTypeJenkins},
	), f.toServiceAt(service), words(mapped(c.name(), service, slot)))
}
