package kernel

import (
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// The chains of our table. Everything that grows with services is in sets and maps
// (nat_sets.go); the rules are few.
//
//	prerouting: in from outside or output-feature interfaces ──> nat-services
//	output: packets of the node itself                       ──> nat-services
//
//	nat-services   identity? stay ─> one backend? there ─> several? nat-balance
//	               ─> a whole protocol? there ─> a whole address? there
//	nat-balance    session affinity? to the slot that the client had not long ago,
//	               which the kernel remembers; else to any slot, by chance
//
//	postrouting
//	 │ to a backend ─> nat-twice: twice-NAT? from a twice-NAT pool
//	 │ identity? stay
//	 │ packets of the node itself: stay
//	 │ out of an output-feature interface ─────────────> nat-source
//	 └ out of an outside interface ─> nat-in             ^
//	                                   └ in from inside ─┘
//	nat-source     from a pool
//
//	forward (without global forwarding): new connections from outside that nobody
//	translates are dropped
const (
	chainPrerouting  = "nat-prerouting"
	chainOutput      = "nat-output"
	chainServices    = "nat-services"
	chainBalance     = "nat-balance"
	chainPostrouting = "nat-postrouting"
	chainTwice       = "nat-twice"
	chainTwiceSource = "nat-twice-source"
	chainIn          = "nat-in"
	chainSource      = "nat-source"
	chainForward     = "nat-forward"
)

// natChains returns the chains, those first that others lead to.
func natChains() []*nftables.Chain {
	base := func(name string, typ nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return &nftables.Chain{Name: name, Table: natTableRef, Type: typ, Hooknum: hook, Priority: priority}
	}
	plain := func(name string) *nftables.Chain { return &nftables.Chain{Name: name, Table: natTableRef} }
	return []*nftables.Chain{
		plain(chainSource), plain(chainIn), plain(chainTwiceSource), plain(chainTwice), plain(chainBalance), plain(chainServices),
		base(chainPostrouting, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource),
		base(chainPrerouting, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest),
		base(chainOutput, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest),
		base(chainForward, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter),
	}
}

// natRule is a rule with the comment that it is known by.
type natRule struct {
	chain, comment string
	words          []word
}

// service loads the key of the service that a packet is sent to.
func service() []word {
	return words(loadAddress(offsetDestination, 0), loadProtocol(1), loadPort(offsetDstPort, 2))
}

const (
	ctDestinationNAT = 1 << 5 // IPS_DST_NAT, a bit of the status of connections
	typeLocal        = 2      // RTN_LOCAL
)

// rules returns what the state asks for, in order.
func (s *natState) rules() (list []natRule) {
	add := func(chain, comment string, parts ...[]word) {
		list = append(list, natRule{chain, comment, slices.Concat(parts...)})
	}
	to := func(chain string) []word { return words(verdict(expr.VerdictGoto, chain)) }

	add(chainPrerouting, "from outside", device(expr.MetaKeyIIFNAME, setOutside), to(chainServices))
	add(chainPrerouting, "from output-feature interfaces", device(expr.MetaKeyIIFNAME, setOutput), to(chainServices))
	add(chainOutput, "packets of the node itself", to(chainServices))

	stay := words(verdict(expr.VerdictReturn, ""))
	add(chainServices, "identity", service(), words(in(setIdentity, 0)), stay)
	add(chainServices, "identity of a protocol", words(loadAddress(offsetDestination, 0), loadProtocol(1), in(setIdentityProto, 0)), stay)
	add(chainServices, "identity of an address", words(loadAddress(offsetDestination, 0), in(setIdentityAddr, 0)), stay)
	add(chainServices, "one backend", service(), words(mapped(mapStatic, 0, 0), translate(expr.NATTypeDestNAT, 0, true)))
	add(chainServices, "several backends", service(), words(in(setBalanced, 0)), to(chainBalance))
	add(chainServices, "protocol", words(loadAddress(offsetDestination, 0), loadProtocol(1), mapped(mapProtocol, 0, 0), translate(expr.NATTypeDestNAT, 0, false)))
	add(chainServices, "address", words(loadAddress(offsetDestination, 0), mapped(mapAddress, 0, 0), translate(expr.NATTypeDestNAT, 0, false)))

	s.balance(add)

	add(chainPostrouting, "to a backend", words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}), has(0, ctDestinationNAT), words(verdict(expr.VerdictJump, chainTwice)))
	source := func(set string, load ...expr.Any) []word {
		return words(append(load, in(set, 0), verdict(expr.VerdictAccept, ""))...)
	}
	add(chainPostrouting, "identity", source(setIdentity, loadAddress(offsetSource, 0), loadProtocol(1), loadPort(offsetSourcePort, 2)))
	add(chainPostrouting, "identity of a protocol", source(setIdentityProto, loadAddress(offsetSource, 0), loadProtocol(1)))
	add(chainPostrouting, "identity of an address", source(setIdentityAddr, loadAddress(offsetSource, 0)))
	add(chainPostrouting, "packets of the node itself", words(
		&expr.Fib{Register: reg(0), FlagSADDR: true, ResultADDRTYPE: true}, equal(0, native32(typeLocal)), verdict(expr.VerdictReturn, "")))
	add(chainPostrouting, "to output-feature interfaces", device(expr.MetaKeyOIFNAME, setOutput), to(chainSource))
	add(chainPostrouting, "to outside", device(expr.MetaKeyOIFNAME, setOutside), to(chainIn))
	// What is both is where services are used and offered: nothing is outside of it.
	add(chainIn, "from inside and outside", device(expr.MetaKeyIIFNAME, setOutside), stay)
	add(chainIn, "from inside", device(expr.MetaKeyIIFNAME, setInside), to(chainSource))

	opened := append([]word{openedTo{reg(0)}}, words(loadProtocol(1), &expr.Ct{Key: expr.CtKeyPROTODST, Register: reg(2)})...)
	add(chainTwice, "from an address", opened, words(mapped(mapTwiceIP, 0, 0), translate(expr.NATTypeSourceNAT, 0, false)))
	add(chainTwice, "always", opened, words(in(setTwice, 0)), to(chainTwiceSource))
	add(chainTwice, "to itself", opened, words(loadAddress(offsetSource, 3), loadAddress(offsetDestination, 4), in(setSelf, 0)), to(chainTwiceSource))

	for _, chain := range []string{chainSource, chainTwiceSource} {
		pools := s.poolsOf(chain)
		for i, p := range pools {
			var share []word
			if len(pools) > 1 {
				share = sharedOut(i, len(pools))
			}
			add(chain, p.comment(), share, sourceFrom(p.first, p.last))
		}
	}
	if s.enabled && !s.forwarding {
		for _, set := range []string{setOutside, setOutput} {
			add(chainForward, "not translated, from "+set, device(expr.MetaKeyIIFNAME, set),
				words(&expr.Ct{Key: expr.CtKeySTATE, Register: reg(0)}), has(0, expr.CtStateBitNEW),
				words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}), hasNot(0, ctDestinationNAT),
				words(verdict(expr.VerdictDrop, "")))
		}
	}
	return list
}

// balance adds the rules that pick one of several backends.
func (s *natState) balance(add func(chain, comment string, parts ...[]word)) {
	client, there := words(loadAddress(offsetSource, 3)), words(translate(expr.NATTypeDestNAT, 4, true))
	sticky := false
	// nft 1.0 cannot print that what a map says goes into another map: it aborts. So it
	// is to believe that the destination does, which in a way is true: the map
	// overwrites it, as the data of its elements begin with a register of nothing.
	destination := words(loadAddress(offsetDestination, 4), loadPort(offsetDstPort, 5))
	for _, c := range s.sortedClasses() {
		if c.timeout != 0 {
			sticky = true
			add(chainBalance, c.name()+" for clients", service(), destination, words(draw(c.slots, 3), mapped(c.name(), 0, 3)),
				client, words(remember(mapAffinity, 0, 4, time.Duration(c.timeout)*time.Second)))
		}
	}
	if sticky {
		add(chainBalance, "clients", service(), words(in(setSticky, 0)), client, words(mapped(mapAffinity, 0, 4)), there)
	}
	for _, c := range s.sortedClasses() {
		if c.timeout != 0 { // clients for which there is no more room
			add(chainBalance, c.name(), service(), destination, words(draw(c.slots, 3), mapped(c.name(), 0, 3)), there)
		} else {
			add(chainBalance, c.name(), service(), words(draw(c.slots, 3), mapped(c.name(), 0, 4)), there)
		}
	}
}
