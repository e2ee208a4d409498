package nat

import (
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables/expr"
)

// The rules that pick one of several backends. With session affinity, a client has one backend of
// the port of a value (vswitch.AffinityPort) by all services that belong to it:
//
//	the backend of the port that the client has ──the service has it, too?──> there, and remembered anew
//	   │ no
//	   ├ none of the port, but one apart? that one from now on
//	   ├ none of the port? any slot
//	   ├ what it is now ──the service has it, too?──> there
//	   └ else apart, the same for all services of the scope: what the client has, or any slot ──> there
//
// So a service with few of the port's backends, such as those of the node, leaves alone what a
// client has of the others. What clients have is in nat-clients, by the keys that nat-port and
// nat-apart have for a service.

// balance adds the rules for all scopes.
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

	for _, c := range classes { // first: what needs no affinity does not pay for it
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
	for _, c := range sticky { // clients for which there is no more room
		add(c.name(), drawn(c), there)
	}
}

// Registers for clients of ports, of which IPv6 needs all sixteen.
//
//	0  seconds   1  port of a value   4  client              10  filler   11  backend
//	                                     service, up to 10 ──┘
const (
	portReg       = 1
	portClientReg = portReg + 3
	rememberedReg = 10 // what nat-clients maps to
	foundReg      = rememberedReg + 1
)

// serviceReg is where the key of a service is followed by the backend in foundReg.
func (f *natFamily) serviceReg() uint32 { return foundReg - f.regs - 2 }

func (f *natFamily) toServiceAt(r uint32) []nft.Word {
	return words(f.loadAddress(f.destination, r), loadProtocol(r+f.regs), loadPort(offsetDstPort, r+f.regs+1))
}

// placeholder is for nft 1.0, which aborts when listing a rule that feeds one map's result into
// another: in its eyes, the destination of the packet stays where a map's data then overwrites it
// behind a filler.
func (f *natFamily) placeholder(r uint32) []nft.Word {
	return words(f.loadAddress(f.destination, r), loadPort(offsetDstPort, r+f.regs))
}

// portKey loads what a map of a scope has for a service with session affinity, and the client; with a
// timeout, only if it is that of the service.
func (f *natFamily) portKey(ports string, timeout uint32) []nft.Word {
	list := words(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg(portReg)}, loadProtocol(portReg+1), loadPort(offsetDstPort, portReg+2)) // as placeholder
	list = append(list, f.toServiceAt(f.serviceReg())...)
	list = append(list, words(mapped(ports, f.serviceReg(), 0))...)
	if timeout != 0 {
		list = append(list, words(equal(0, native32(timeout)))...)
	}
	return append(list, words(f.loadAddress(f.source, portClientReg))...)
}

// found loads the backend that a client has, if the service has it, too.
func (f *natFamily) found(scope natScope, ports string, timeout uint32) []nft.Word {
	return slices.Concat(
		f.placeholder(foundReg), f.portKey(ports, timeout), words(mapped(mapClients, portReg, rememberedReg)),
		f.toServiceAt(f.serviceReg()), words(inSet(scope.usable(), f.serviceReg()), f.loadAddress(f.source, portClientReg)),
	)
}

// drawnForPort draws a backend of a service with session affinity into foundReg.
func (f *natFamily) drawnForPort(c natClass) []nft.Word {
	slot := foundReg - f.regs // the filler of the class is as long as an address
	service := slot - f.regs - 2
	return slices.Concat(f.placeholder(foundReg), f.toServiceAt(service), words(draw(c.slots, slot), mapped(c.name(), service, slot)))
}
