package nat

import (
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables/expr"
)

// The rules that select one of several backends. With session affinity, a client has one backend
// per port of a value (vswitch.AffinityPort), shared by all services of that port:
//
//	the client's backend of the port ──usable by the service?──> there, timeout renewed
//	   │ no
//	   ├ none of the port, but one apart? that one becomes the port's
//	   ├ none of the port? any slot
//	   ├ the new backend of the port ──usable by the service?──> there
//	   └ else apart, shared by the services of the scope: the client's backend, or any slot ──> there
//
// So a service with only some of the port's backends, such as the local ones, does not change a
// client's backend of the port. nat-clients maps the keys that nat-port and nat-apart hold for a
// service to the client's backend.

func (s *natState) balance(add func(chain, comment string, parts ...[]nft.Word)) {
	for _, scope := range natScopes {
		s.balanceScope(scope, func(comment string, parts ...[]nft.Word) { add(scope.chain(), comment, parts...) })
	}
}

func (s *natState) balanceScope(scope natScope, add func(comment string, parts ...[]nft.Word)) {
	f := s.family
	slot, backend := f.clientReg(), f.backendReg()
	client, there := words(f.loadAddress(f.source, f.clientReg())), words(f.translate(expr.NATTypeDestNAT, backend, true))
	classes := s.classesOf(scope)
	sticky := slices.DeleteFunc(slices.Clone(classes), func(c natClass) bool { return c.timeout == 0 })
	seconds := func(n uint32) time.Duration { return time.Duration(n) * time.Second }
	drawn := func(c natClass) []nft.Word {
		return slices.Concat(f.toService(), f.placeholder(backend), words(draw(c.slots, slot), mapped(c.name(), 0, slot)))
	}

	for _, c := range classes { // first, so that services without affinity do not pay for it
		if c.timeout == 0 {
			add(c.name(), f.toService(), words(draw(c.slots, slot), mapped(c.name(), 0, backend)), there)
		}
	}
	timeouts := make([]uint32, len(sticky))
	for i, c := range sticky {
		timeouts[i] = c.timeout
	}
	slices.Sort(timeouts)
	timeouts = slices.Compact(timeouts)
	toFound := words(f.translate(expr.NATTypeDestNAT, foundReg, true))
	for _, t := range timeouts {
		add(fmt.Sprintf("clients of ports, %d s", t), f.found(scope, scope.port(), t), words(remember(mapClients, portReg, rememberedReg, seconds(t))), toFound)
	}
	if s.byAddress && len(sticky) > 0 {
		had := slices.Concat(f.toService(), client, words(mapped(mapAffinity, 0, backend)))
		for _, c := range sticky {
			add(c.name()+" for clients of addresses", had, drawn(c), client, words(remember(mapAffinity, 0, backend, seconds(c.timeout))))
		}
		add("clients of addresses", had, there)
	}
	for _, t := range timeouts {
		add(fmt.Sprintf("clients apart, %d s", t), f.found(scope, scope.apart(), t), f.portKey(scope.port(), 0), words(rememberNew(mapClients, portReg, rememberedReg, seconds(t))))
	}
	for _, c := range sticky {
		add(c.name()+" for clients of ports", f.drawnForPort(c), f.portKey(scope.port(), 0), words(rememberNew(mapClients, portReg, rememberedReg, seconds(c.timeout))))
	}
	if len(sticky) > 0 {
		add("clients of ports", f.found(scope, scope.port(), 0), toFound)
	}
	for _, c := range sticky {
		add(c.name()+" for clients apart", f.drawnForPort(c), f.portKey(scope.apart(), 0), words(remember(mapClients, portReg, rememberedReg, seconds(c.timeout))))
	}
	if len(sticky) > 0 {
		add("clients apart", f.found(scope, scope.apart(), 0), toFound)
	}
	for _, c := range sticky {
		add(c.name(), drawn(c), there)
	}
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

// portKey loads a service's key from a map of a scope, and the client. With a timeout, it matches
// only services with this timeout.
func (f *natFamily) portKey(ports string, timeout uint32) []nft.Word {
	list := words(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg(portReg)}, loadProtocol(portReg+1), loadPort(offsetDstPort, portReg+2)) // as placeholder
	list = append(list, f.toServiceAt(f.serviceReg())...)
	list = append(list, words(mapped(ports, f.serviceReg(), 0))...)
	if timeout != 0 {
		list = append(list, words(equal(0, native32(timeout)))...)
	}
	return append(list, words(f.loadAddress(f.source, portClientReg))...)
}

func (f *natFamily) found(scope natScope, ports string, timeout uint32) []nft.Word {
	return slices.Concat(
		f.placeholder(foundReg), f.portKey(ports, timeout), words(mapped(mapClients, portReg, rememberedReg)),
		f.toServiceAt(f.serviceReg()), words(inSet(scope.usable(), f.serviceReg()), f.loadAddress(f.source, portClientReg)),
	)
}

func (f *natFamily) drawnForPort(c natClass) []nft.Word {
	slot := foundReg - f.regs // the filler of the class is as long as an address
	service := slot - f.regs - 2
	return slices.Concat(f.placeholder(foundReg), f.toServiceAt(service), words(draw(c.slots, slot), mapped(c.name(), service, slot)))
}
