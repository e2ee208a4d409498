package nat

import (
	"slices"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// The chains of our tables. Sets and maps (sets.go) hold everything that grows with services, so
// the rules are few.
//
//	prerouting: in from outside or output-feature interfaces ──> nat-services
//	output: packets of the node itself                       ──> nat-services
//
//	nat-services   a port: identity? stay ─> one backend? there ─> several? nat-balance
//	               ─> a whole protocol, or address: identity? stay ─> else there
//	nat-balance    session affinity? the client's recent backend, which the kernel
//	               remembers, else by a hash of the client; else a random slot (balance.go)
//
//	prerouting, output: established connections of clients to remember ─> nat-remember (remember.go)
//
//	postrouting
//	 │ to a backend ─> nat-twice: twice-NAT? from a twice-NAT pool
//	 │ out of an output-feature interface ─────────────> nat-source
//	 └ out of an outside interface ─> nat-in             ^
//	                                   └ in from inside ─┘
//	nat-source     identity? packet of the node itself? stay ─> else from a pool
//
//	prerouting, raw: frames of our bridges are not tracked
//
//	forward, output: refuse packets translated to an unused cluster IP (as an endpoint)
//
//	forward (without global forwarding): drop new untranslated connections from outside
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
	chainUnused      = "nat-unused"
	chainUnusedOwn   = "nat-unused-own"
	chainBridged     = "nat-bridged"
)

// chains returns the chains, jump targets first. IPv6 has only the chains of services.
func (f *natFamily) chains() (list []*nftables.Chain) {
	plain := func(names ...string) {
		for _, name := range names {
			list = append(list, &nftables.Chain{Name: name, Table: f.table})
		}
	}
	base := func(name string, typ nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) {
		list = append(list, &nftables.Chain{Name: name, Table: f.table, Type: typ, Hooknum: hook, Priority: priority})
	}
	if f == nat4 {
		plain(chainSource, chainIn, chainTwiceSource)
		base(chainForward, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	}
	base(chainBridged, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	plain(chainRemembered, chainRemember)
	base(chainEstablished, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityMangle)
	base(chainEstablishedOwn, nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityMangle)
	for _, scope := range natScopes {
		plain(scope.known())
	}
	plain(chainTwice, chainRefuse, chainBalanceIn, chainBalanceOut, chainBalanceOwn, chainInside, chainBalance, chainServices)
	base(chainUnused, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	base(chainUnusedOwn, nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)
	base(chainPostrouting, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	base(chainPrerouting, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest)
	base(chainOutput, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest)
	return list
}

type natRule struct {
	chain, comment string
	words          []nft.Word
}

const (
	ctDestinationNAT = 1 << 5
	typeLocal        = 2
)

func (s *natState) rules() (list []natRule) {
	add := func(chain, comment string, parts ...[]nft.Word) {
		list = append(list, natRule{chain, comment, slices.Concat(parts...)})
	}
	to := func(chain string) []nft.Word { return words(verdict(expr.VerdictGoto, chain)) }
	f := s.family
	if f == nat6 {
		s.rules6(add, to)
		return list
	}

	s.bridged(add)
	if s.network.isSet() {
		add(chainPrerouting, "from any interface", to(chainServices))
	} else {
		add(chainPrerouting, "from outside", device(expr.MetaKeyIIFNAME, setOutside), to(chainServices))
		add(chainPrerouting, "from output-feature interfaces", device(expr.MetaKeyIIFNAME, setOutput), to(chainServices))
	}
	add(chainOutput, "connections of the agent to etcd", nft.Untranslated(reg(0)))
	s.fromNode(add)
	add(chainOutput, "packets of the node itself", to(chainServices))

	stay := words(verdict(expr.VerdictReturn, ""))
	add(chainServices, "identity", f.toService(), words(inSet(setIdentity, 0)), stay)
	add(chainServices, restrictedRule, f.restricted())
	add(chainServices, "one backend", f.toService(), words(mapped(mapStatic, 0, 0), f.translate(expr.NATTypeDestNAT, 0, true)))
	add(chainServices, "several backends", f.toService(), words(inSet(setBalanced, 0)), to(chainBalance))
	s.scoped(add)
	// Ports take precedence over addresses, and services come first.
	add(chainServices, "identity of a protocol", words(f.loadAddress(f.destination, 0), loadProtocol(1), inSet(setIdentityProto, 0)), stay)
	add(chainServices, "identity of an address", words(f.loadAddress(f.destination, 0), inSet(setIdentityAddr, 0)), stay)
	add(chainServices, "protocol", words(f.loadAddress(f.destination, 0), loadProtocol(1), mapped(mapProtocol, 0, 0), f.translate(expr.NATTypeDestNAT, 0, false)))
	add(chainServices, "address", words(f.loadAddress(f.destination, 0), mapped(mapAddress, 0, 0), f.translate(expr.NATTypeDestNAT, 0, false)))
	s.clusterIPs(add)

	s.balance(add)
	s.known(add)
	s.remember(add)

	add(chainPostrouting, "to a backend", words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}), bitSet(0, ctDestinationNAT), words(verdict(expr.VerdictJump, chainTwice)))
	add(chainPostrouting, "to output-feature interfaces", device(expr.MetaKeyOIFNAME, setOutput), to(chainSource))
	add(chainPostrouting, "to outside", device(expr.MetaKeyOIFNAME, setOutside), to(chainIn))
	// An interface that is both inside and outside carries clients and endpoints: no packet is
	// outside of it.
	add(chainIn, "from inside and outside", device(expr.MetaKeyIIFNAME, setOutside), stay)
	add(chainIn, "from inside", device(expr.MetaKeyIIFNAME, setInside), to(chainSource))

	// Source translation comes last, because most forwarded packets stay in the cluster.
	source := func(set string, load ...expr.Any) []nft.Word {
		return words(append(load, inSet(set, 0), verdict(expr.VerdictAccept, ""))...)
	}
	add(chainSource, "identity", slices.Concat(f.loadService(f.source, offsetSourcePort), words(inSet(setIdentity, 0), verdict(expr.VerdictAccept, ""))))
	add(chainSource, "identity of a protocol", source(setIdentityProto, f.loadAddress(f.source, 0), loadProtocol(1)))
	add(chainSource, "identity of an address", source(setIdentityAddr, f.loadAddress(f.source, 0)))
	add(chainSource, "packets of the node itself", words(
		&expr.Fib{Register: reg(0), FlagSADDR: true, ResultADDRTYPE: true}, equal(0, native32(typeLocal)), verdict(expr.VerdictAccept, "")))

	opened := f.opened()
	s.nodeSources(add)
	add(chainTwice, "from an address", opened, words(mapped(mapTwiceIP, 0, 0), f.translate(expr.NATTypeSourceNAT, 0, false)))
	add(chainTwice, "always", opened, words(inSet(setTwice, 0)), to(chainTwiceSource))
	itself := slices.Concat(opened, words(f.loadAddress(f.source, f.clientReg()), f.loadAddress(f.destination, f.backendReg())))
	add(chainTwice, "to itself, from an address", itself, words(mapped(mapSelfIP, 0, 0), f.translate(expr.NATTypeSourceNAT, 0, false)))
	add(chainTwice, "to itself", itself, words(inSet(setSelf, 0)), to(chainTwiceSource))
	s.masquerade(add)

	for _, chain := range []string{chainSource, chainTwiceSource} {
		pools := s.poolsOf(chain)
		for i, p := range pools {
			var share []nft.Word
			if len(pools) > 1 {
				share = f.sharedOut(i, len(pools))
			}
			add(chain, p.comment(), share, f.sourceFrom(p.first, p.last))
		}
	}
	if s.enabled && !s.forwarding {
		for _, set := range []string{setOutside, setOutput} {
			add(chainForward, "not translated, from "+set, device(expr.MetaKeyIIFNAME, set),
				words(&expr.Ct{Key: expr.CtKeySTATE, Register: reg(0)}), bitSet(0, expr.CtStateBitNEW),
				words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}), bitClear(0, ctDestinationNAT),
				words(verdict(expr.VerdictDrop, "")))
		}
	}
	return list
}

func (s *natState) rules6(add func(chain, comment string, parts ...[]nft.Word), to func(chain string) []nft.Word) {
	f := s.family
	s.bridged(add)
	add(chainPrerouting, "packets that enter", to(chainServices))
	add(chainOutput, "connections of the agent to etcd", nft.Untranslated(reg(0)))
	s.fromNode(add)
	add(chainOutput, "packets of the node itself", to(chainServices))
	add(chainServices, restrictedRule, f.restricted())
	add(chainServices, "one backend", f.toService(), words(mapped(mapStatic, 0, 0), f.translate(expr.NATTypeDestNAT, 0, true)))
	add(chainServices, "several backends", f.toService(), words(inSet(setBalanced, 0)), to(chainBalance))
	s.scoped(add)
	s.clusterIPs(add)
	s.balance(add)
	s.known(add)
	s.remember(add)
	add(chainPostrouting, "to a backend", words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}), bitSet(0, ctDestinationNAT), words(verdict(expr.VerdictJump, chainTwice)))
	source := words(f.translate(expr.NATTypeSourceNAT, 0, false))
	s.nodeSources(add)
	add(chainTwice, "from an address", f.opened(), words(mapped(mapTwiceIP, 0, 0)), source)
	add(chainTwice, "to itself", f.opened(), words(f.loadAddress(f.source, f.clientReg()), f.loadAddress(f.destination, f.backendReg()), mapped(mapSelfIP, 0, 0)), source)
	s.masquerade(add)
}

// opened loads the service to which the connection was opened.
func (f *natFamily) opened() []nft.Word { return f.openedAt(0) }

func (f *natFamily) openedAt(r uint32) []nft.Word {
	return append([]nft.Word{nft.Tuple{Register: reg(r), Key: f.openedTo}}, words(loadProtocol(r+f.regs), &expr.Ct{Key: expr.CtKeyPROTODST, Register: reg(r + f.regs + 1)})...)
}
