package podguard

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// TableName is the name of our tables, of the families inet and arp.
const TableName = "contiv-guard"

var (
	inet = &nftables.Table{Name: TableName, Family: nftables.TableFamilyINet}
	arp  = &nftables.Table{Name: TableName, Family: nftables.TableFamilyARP}
)

// Sets by device. Elements carry the interface name as a comment, except in the counting sets.
var (
	guarded  = &nftables.Set{Table: inet, Name: "interfaces", KeyType: nftables.TypeIFName}
	own4     = &nftables.Set{Table: inet, Name: "own4", KeyType: concat(nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr)}
	own6     = &nftables.Set{Table: inet, Name: "own6", KeyType: concat(nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIP6Addr)}
	macs     = &nftables.Set{Table: inet, Name: "macs", KeyType: concat(nftables.TypeIFName, nftables.TypeEtherAddr)}
	limits   = &nftables.Set{Table: inet, Name: "limits", KeyType: nftables.TypeIFName, IsMap: true, DataType: nftables.TypeVerdict}
	arpGuard = &nftables.Set{Table: arp, Name: "interfaces", KeyType: nftables.TypeIFName}
	arpOwn   = &nftables.Set{Table: arp, Name: "own", KeyType: concat(nftables.TypeIFName, nftables.TypeEtherAddr, nftables.TypeIPAddr)}
)

var sourceSets = []*nftables.Set{guarded, own4, own6, macs, limits, arpGuard, arpOwn}

// Sets of tunnels: their networks (VNI), their ends and their devices.
var (
	networks = &nftables.Set{Table: inet, Name: "vxlan", KeyType: nftables.TypeMark}
	tunnels4 = &nftables.Set{Table: inet, Name: "vxlan-tunnels4", KeyType: concat(nftables.TypeMark, nftables.TypeIPAddr, nftables.TypeIPAddr)}
	tunnels6 = &nftables.Set{Table: inet, Name: "vxlan-tunnels6", KeyType: concat(nftables.TypeMark, nftables.TypeIP6Addr, nftables.TypeIP6Addr)}
	peers4   = &nftables.Set{Table: inet, Name: "vxlan-peers4", KeyType: concat(nftables.TypeMark, nftables.TypeIPAddr)}
	peers6   = &nftables.Set{Table: inet, Name: "vxlan-peers6", KeyType: concat(nftables.TypeMark, nftables.TypeIP6Addr)}
)

var (
	ends4 = &nftables.Set{Table: inet, Name: "tunnel-ends4", KeyType: nftables.TypeIPAddr}
	ends6 = &nftables.Set{Table: inet, Name: "tunnel-ends6", KeyType: nftables.TypeIP6Addr}
)

var tunnelSets = []*nftables.Set{networks, tunnels4, tunnels6, peers4, peers6, ends4, ends6}

func concat(types ...nftables.SetDatatype) nftables.SetDatatype {
	return nftables.MustConcatSetType(types...)
}

const maxDevices = 65535

func counting(table *nftables.Table, reason vswitch.DropReason) *nftables.Set {
	return &nftables.Set{Table: table, Name: "dropped-" + string(reason), KeyType: nftables.TypeIFName, Dynamic: true, Size: maxDevices}
}

var dropped = map[vswitch.DropReason]*nftables.Set{
	vswitch.DropMAC: counting(inet, vswitch.DropMAC), vswitch.DropIPv4: counting(inet, vswitch.DropIPv4),
	vswitch.DropIPv6: counting(inet, vswitch.DropIPv6), vswitch.DropND: counting(inet, vswitch.DropND),
	vswitch.DropConnections: counting(inet, vswitch.DropConnections), vswitch.DropVXLAN: counting(inet, vswitch.DropVXLAN),
	vswitch.DropVXLANTranslated: counting(inet, vswitch.DropVXLANTranslated), vswitch.DropVXLANInterface: counting(inet, vswitch.DropVXLANInterface),
	vswitch.DropUplink: counting(inet, vswitch.DropUplink), vswitch.DropLoopback: counting(inet, vswitch.DropLoopback), vswitch.DropICMP: counting(inet, vswitch.DropICMP),
	vswitch.DropARP: counting(arp, vswitch.DropARP), vswitch.DropInvalid: counting(inet, vswitch.DropInvalid), vswitch.DropSegments: counting(inet, vswitch.DropSegments),
}

const (
	chainSources      = "sources"   // hook
	chainVSwitch      = "vswitch"   // from a device of the vswitch
	chainBridge       = "bridge"    // from a bridge of the vswitch
	chainMapped       = "mapped"    // IPv6, from a device without a guard
	chainGuarded      = "guarded"   // from a guarded device
	chainSent6        = "sent6"     // IPv6 with a permitted source
	chainDiscovery    = "discovery" // neighbour discovery with a permitted source
	chainForeign      = "foreign"   // other sources
	chainUplink       = "uplink"    // from other devices, with a source behind a vswitch device
	chainOfNode       = "of-node"   // from other devices, with an IPv6 source of the node itself
	chainOpening      = "connections"
	chainErrors       = "icmp-errors"
	chainQuoted       = "icmp-errors-received" // quotes a packet that the pod received
	chainPathOfPod    = "path-mtu-of-pod"
	chainPath         = "path-mtu" // from a device without a guard
	chainPathOfTunnel = "path-mtu-of-tunnel"
	chainNew          = "new"
	chainInvalid      = "invalid"
	chainLocal        = "local"      // hook
	chainEnd          = "tunnel-end" // from the end of a tunnel
	chainVXLAN        = "vxlan"
	chainUnderlay     = "vxlan-underlay"
	chainSent         = "sent"       // hook
	chainUntracked    = "vxlan-sent" // hook
	limitPrefix       = "limit-"
)

// Priorities: sources are checked before reassembly (-400), tunnels bypass connection tracking
// (-200), limits follow it, and sent packets are checked after source NAT (100). Each hook costs
// every packet: there is one per purpose.
const (
	prioritySources   = -450
	priorityUntracked = -300
	priorityOpening   = -190
	priorityVXLAN     = -10
	prioritySent      = 110
)

func hook(table *nftables.Table, name string, hook *nftables.ChainHook, priority nftables.ChainPriority) *nftables.Chain {
	return &nftables.Chain{Table: table, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: &priority}
}

var chains = []*nftables.Chain{
	{Table: inet, Name: chainGuarded}, {Table: inet, Name: chainVSwitch}, {Table: inet, Name: chainBridge}, {Table: inet, Name: chainMapped}, {Table: inet, Name: chainEnd}, {Table: inet, Name: chainSent6}, {Table: inet, Name: chainDiscovery}, {Table: inet, Name: chainForeign}, {Table: inet, Name: chainUplink}, {Table: inet, Name: chainOfNode}, {Table: inet, Name: chainNew}, {Table: inet, Name: chainUnderlay}, {Table: inet, Name: chainVXLAN},
	{Table: inet, Name: chainErrors}, {Table: inet, Name: chainQuoted}, {Table: inet, Name: chainPathOfPod}, {Table: inet, Name: chainPath}, {Table: inet, Name: chainPathOfTunnel}, {Table: inet, Name: chainInvalid},
	hook(inet, chainSources, nftables.ChainHookPrerouting, prioritySources),
	hook(inet, chainOpening, nftables.ChainHookPrerouting, priorityOpening),
	hook(inet, chainLocal, nftables.ChainHookInput, priorityVXLAN),
	hook(inet, chainSent, nftables.ChainHookPostrouting, prioritySent),
	hook(inet, chainUntracked, nftables.ChainHookOutput, priorityUntracked),
	hook(arp, chainSources, arpInput, 0),
}

var arpInput = nftables.ChainHookRef(0)

type rule struct {
	chain string
	what  string
	words words
}

func (r rule) comment() string { return nft.Fingerprint(r.words) + " " + r.what }

const (
	listenerQuery         = 130
	listenerReport2       = 143 // of MLDv2
	routerSolicitation    = 133
	redirect              = 137
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	optionSourceLink      = 1
	optionTargetLink      = 2
)

// inetRules returns the rules of the table inet. Without timeouts, connections of pods use the
// kernel's.
func inetRules(timeouts Timeouts) []rule {
	from4 := join(fromDevice(), senderMAC(), network(12, 4, afterMAC), inSet(own4))
	from6 := join(fromDevice(), senderMAC(), network(8, 16, afterMAC), inSet(own6))
	type6 := func(t byte) words { return join(transport(0, 1, scratch), equals(t)) }
	length6 := func(n uint16) words { return join(network(4, 2, scratch), equals(big16(n)...)) }
	option := func(at uint32, kind byte) words { return join(transport(at, 2, scratch), equals(kind, 1)) }
	unspecified := join(network(8, 16, scratch-4), of(&expr.Cmp{Op: expr.CmpOpEq, Register: scratch - 4, Data: make([]byte, 16)}))
	type6Between := func(first, last byte) words {
		return join(transport(0, 1, scratch), between([]byte{first}, []byte{last}))
	}
	toOtherLinks := join(firstBits10(targetAt), differs(0xfe, 0x80), typeOf(false), equals(native32(unix.RTN_UNICAST)...))
	ownTarget := join(fromDevice(), senderMAC(), transport(8, 16, afterMAC), inSet(own6))

	list := []rule{
		// The most frequent packets come first.
		{chainSources, "by a device of the vswitch", join(fromGroup(), goTo(chainVSwitch))},
		{chainSources, "by another guarded device", join(fromDevice(), inSet(guarded), goTo(chainGuarded))},

		{chainVSwitch, "by a bridge", join(meta(ifKind, scratch), equals(kind("bridge")...), goTo(chainBridge))},
		{chainVSwitch, "IPv4 of a guarded device", join(ofFamily(unix.NFPROTO_IPV4), onEthernet(), from4, accept())},
		{chainVSwitch, "by a guarded device", join(fromDevice(), inSet(guarded), goTo(chainGuarded))},
		{chainVSwitch, "IPv6", join(ofFamily(unix.NFPROTO_IPV6), jump(chainMapped))},
		{chainVSwitch, "any", accept()},

		{chainGuarded, "IPv4 of its own", join(ofFamily(unix.NFPROTO_IPV4), onEthernet(), from4, accept())},
		{chainGuarded, "IPv6 of its own", join(ofFamily(unix.NFPROTO_IPV6), onEthernet(), from6, goTo(chainSent6))},
		{chainGuarded, "anything else", goTo(chainForeign)},

		// Pods send to addresses of other nodes outside the tunnels, and with their own addresses
		// unless NAT applies.
		{chainUplink, "from a pod of this node", join(reachedBy(), inSet(guarded), counted(dropped[vswitch.DropUplink]))},
		{chainUplink, "to the node itself", join(typeOf(false), equals(native32(unix.RTN_LOCAL)...), accept())},
		{chainUplink, "to others", counted(dropped[vswitch.DropUplink])},

		{chainSent6, "other than ICMPv6", join(meta(expr.MetaKeyL4PROTO, scratch), differs(unix.IPPROTO_ICMPV6), accept())},
		// Conntrack does not track messages within a link, so the rules of services do not see them.
		{chainSent6, "within a link, to another link", join(type6Between(listenerQuery, redirect), toOtherLinks, counted(dropped[vswitch.DropND]))},
		{chainSent6, "MLDv2, to another link", join(type6(listenerReport2), toOtherLinks, counted(dropped[vswitch.DropND]))},
		{chainSent6, "neighbour discovery", join(discovery(), goTo(chainDiscovery))},

		// Only routers send router advertisements and redirects.
		{chainDiscovery, "asks for routers", join(type6(routerSolicitation), length6(8), accept())},
		{chainDiscovery, "asks for routers, with its MAC address", join(type6(routerSolicitation), length6(16), option(8, optionSourceLink),
			fromDevice(), transport(10, 6, afterDevice), inSet(macs), accept())},
		{chainDiscovery, "asks for a neighbour", join(type6(neighborSolicitation), length6(24), accept())},
		{chainDiscovery, "asks for a neighbour, with its MAC address", join(type6(neighborSolicitation), length6(32), option(24, optionSourceLink),
			fromDevice(), transport(26, 6, afterDevice), inSet(macs), accept())},
		{chainDiscovery, "says where it is", join(type6(neighborAdvertisement), length6(24), ownTarget, accept())},
		{chainDiscovery, "says where it is, with its MAC address", join(type6(neighborAdvertisement), length6(32), option(24, optionTargetLink),
			fromDevice(), transport(26, 6, afterDevice), transport(8, 16, afterMAC), inSet(own6), accept())},
		{chainDiscovery, "claims something else", counted(dropped[vswitch.DropND])},

		// A host without an address performs duplicate address detection and joins groups.
		{chainForeign, "looks for duplicates of its address", join(ofFamily(unix.NFPROTO_IPV6), onEthernet(), unspecified, ofProtocol(unix.IPPROTO_ICMPV6),
			type6(neighborSolicitation), ownTarget, accept())},
		{chainForeign, "joins groups", join(ofFamily(unix.NFPROTO_IPV6), onEthernet(), unspecified, ofProtocol(unix.IPPROTO_ICMPV6),
			type6(listenerReport2), fromDevice(), senderMAC(), inSet(macs), accept())},
		{chainForeign, "IPv4 with its MAC address", join(ofFamily(unix.NFPROTO_IPV4), onEthernet(), fromDevice(), senderMAC(), inSet(macs), counted(dropped[vswitch.DropIPv4]))},
		{chainForeign, "IPv6 with its MAC address", join(ofFamily(unix.NFPROTO_IPV6), onEthernet(), fromDevice(), senderMAC(), inSet(macs), counted(dropped[vswitch.DropIPv6]))},
		{chainForeign, "foreign MAC address", counted(dropped[vswitch.DropMAC])},

		// Most packets are of known connections. ICMP errors and invalid packets never are.
		{chainOpening, "of a known connection", join(inState(expr.CtStateBitESTABLISHED), accept())},
		{chainOpening, "of no connection, such as VXLAN of peers", join(inState(expr.CtStateBitUNTRACKED), ofProtocol(unix.IPPROTO_UDP), accept())},
		{chainOpening, "ICMP errors", join(ofFamily(unix.NFPROTO_IPV4), ofProtocol(unix.IPPROTO_ICMP), jump(chainErrors))},
		{chainOpening, "ICMPv6 errors", join(ofFamily(unix.NFPROTO_IPV6), ofProtocol(unix.IPPROTO_ICMPV6), jump(chainErrors))},
		{chainOpening, "opens a connection", join(status(statusConfirmed), equals(0, 0, 0, 0), fromDevice(), inSet(guarded), goTo(chainNew))},
		// With route_localnet, which portmap sets on devices of pods with host ports, the kernel
		// delivers packets of pods to programs that listen on loopback only. It never does so for
		// ::1.
		{chainNew, "to the loopback of the node", join(ofFamily(unix.NFPROTO_IPV4), network(16, 1, scratch), equals(127), counted(dropped[vswitch.DropLoopback]))},
		{chainNew, "limit", join(fromDevice(), verdictOf(limits))},
	}
	if timeouts != (Timeouts{}) {
		list = append(list,
			rule{chainNew, "time-outs of TCP", join(ofProtocol(unix.IPPROTO_TCP), transport(13, 1, scratch),
				of(&expr.Bitwise{SourceRegister: scratch, DestRegister: scratch, Len: 1, Mask: []byte{synAckRstFin}, Xor: []byte{0}}),
				equals(syn), withTimeouts(timeouts.name()), accept())},
			rule{chainNew, "time-outs of TCP without a handshake", join(ofProtocol(unix.IPPROTO_TCP), withTimeouts(timeouts.midstream().name()))})
	}

	return slices.Concat(segmentRules(), list, sourceRules(), uplinkRules(), tunnelRules(), errorRules(), invalidRules())
}

func arpRules() []rule {
	return []rule{
		{chainSources, "its own addresses", join(fromDevice(), network(8, 6, afterDevice), network(14, 4, afterMAC), inSet(arpOwn), accept())},
		{chainSources, "foreign addresses", join(fromDevice(), inSet(arpGuard), counted(dropped[vswitch.DropARP]))},
	}
}

const (
	statusConfirmed  = 1 << 3      // IPS_CONFIRMED: the connection is in the table
	statusTranslated = 1<<4 | 1<<5 // IPS_SRC_NAT, IPS_DST_NAT
	syn              = 0x02
	synAckRstFin     = 0x17
)

func native32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// Timeouts of TCP connections that pods open. The zero value means none.
type Timeouts struct {
	// Established is the idle timeout of a connection, CloseWait that of a half-closed one.
	Established, CloseWait time.Duration
}

// DefaultTimeouts are kube-proxy's.
var DefaultTimeouts = Timeouts{Established: 24 * time.Hour, CloseWait: time.Hour}

func (t Timeouts) orDefault() Timeouts {
	return Timeouts{cmp.Or(t.Established, DefaultTimeouts.Established), cmp.Or(t.CloseWait, DefaultTimeouts.CloseWait)}
}

func (t Timeouts) midstream() Timeouts {
	return Timeouts{min(t.Established, 5*time.Minute), min(t.CloseWait, 5*time.Minute)}
}

// name returns the name of the timeout object. The kernel cannot change an object.
func (t Timeouts) name() string {
	return fmt.Sprintf("tcp-%d-%d-%d", seconds(t.Established), seconds(t.CloseWait), ended)
}

func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// ended is the timeout in seconds of connections that ended. They do not count for the limit, see
// limitChain.
const ended = 1

// object returns the timeouts of all states.
func (t Timeouts) object() *expr.CtTimeout {
	return &expr.CtTimeout{L3Proto: unix.NFPROTO_IPV4, L4Proto: unix.IPPROTO_TCP, Policy: expr.CtStatePolicyTimeout{
		expr.CtStateTCPSYNSENT: 60, expr.CtStateTCPSYNRECV: 30, expr.CtStateTCPESTABLISHED: seconds(t.Established), expr.CtStateTCPFINWAIT: 60,
		expr.CtStateTCPCLOSEWAIT: seconds(t.CloseWait), expr.CtStateTCPLASTACK: 30, expr.CtStateTCPTIMEWAIT: ended, expr.CtStateTCPCLOSE: ended,
		expr.CtStateTCPSYNSENT2: 60, expr.CtStateTCPRETRANS: 60, expr.CtStateTCPUNACK: 60,
	}}
}

func withTimeouts(name string) words {
	return of(&expr.Objref{Type: int(nftables.ObjTypeCtTimeout), Name: name})
}

// The library stores default timeouts in a global variable that it writes.
var libraryTimeouts sync.Mutex

func (t transaction) addTimeouts(timeouts ...Timeouts) {
	libraryTimeouts.Lock()
	defer libraryTimeouts.Unlock()
	for _, one := range timeouts {
		t.inet.AddObject(one.name(), nftables.ObjTypeCtTimeout, one.object())
	}
}

// limitName returns the name of the chain for a limit and a group of interfaces; "": counted
// separately.
func limitName(limit uint32, together string) string {
	name := limitPrefix + strconv.FormatUint(uint64(limit), 10)
	if together == "" {
		return name
	}
	sum := sha256.Sum256([]byte(together))
	return name + togetherMark + hex.EncodeToString(sum[:8])
}

const togetherMark = "-of-"

// openingTime is the time in seconds in which a pod may open as many TCP connections as its limit,
// after as many at once.
const openingTime = 8

// limitChain returns the chain of a limit, and the sets that count connections by device; none: the
// chain counts all its devices together.
//
// The kernel does not count TCP connections that ended (nf_conncount, already_closed), although it
// tracks them for a time, and collects expired ones once a minute (nf_conntrack, gc_worker). So a
// rate bounds them.
func limitChain(name string) (*nftables.Chain, []*nftables.Set, []rule) {
	limit, together, _ := limitOf(name)
	chain := &nftables.Chain{Table: inet, Name: name}
	var sets []*nftables.Set
	var rules []rule
	for _, bound := range []struct {
		set, what string
		of        words
		over      expr.Any
	}{
		{"begun-", "too many at once", ofProtocol(unix.IPPROTO_TCP), &expr.Limit{
			Type: expr.LimitTypePkts, Rate: uint64(max(limit/openingTime, 1)), Unit: expr.LimitTimeSecond, Burst: limit, Over: true,
		}},
		{"opened-", "one too many", nil, &expr.Connlimit{Count: limit, Flags: expr.NFT_CONNLIMIT_F_INV}},
	} {
		over := of(bound.over)
		if !together {
			set := &nftables.Set{Table: inet, Name: bound.set + name, KeyType: nftables.TypeIFName, Dynamic: true, Size: maxDevices}
			sets = append(sets, set)
			over = join(fromDevice(), of(&expr.Dynset{SrcRegKey: first, SetName: set.Name, Operation: uint32(unix.NFT_DYNSET_OP_ADD), Exprs: []expr.Any{bound.over}}))
		}
		rules = append(rules, rule{name, bound.what, join(bound.of, over, counted(dropped[vswitch.DropConnections]))})
	}
	return chain, sets, rules
}

// load creates all tables, sets and rules, and keeps elements.
func (t transaction) load(timeouts Timeouts, had state) {
	t.inet.AddTable()
	t.arp.AddTable()
	for _, set := range slices.Concat(sourceSets, tunnelSets, uplinkSets, slices.Collect(maps.Values(dropped))) {
		t.addSet(set)
	}
	if timeouts != (Timeouts{}) {
		t.addTimeouts(timeouts, timeouts.midstream())
	}
	for _, chain := range chains {
		t.of(chain.Table).AddChain(chain)
	}
	for _, name := range had.limits {
		t.addLimit(name)
	}
	for _, name := range had.obsolete {
		t.inet.FlushChain(name)
	}
	for _, chain := range chains {
		t.setChain(chain, rulesOf(chain.Table, timeouts))
	}
	for _, name := range had.obsolete {
		t.inet.DeleteChain(name)
	}
}

func rulesOf(table *nftables.Table, timeouts Timeouts) []rule {
	if table == arp {
		return arpRules()
	}
	return inetRules(timeouts)
}

func (t transaction) addLimit(name string) {
	chain, sets, rules := limitChain(name)
	for _, set := range sets {
		t.addSet(set)
	}
	t.setChain(chain, rules)
}

type state struct {
	// intact: every chain has exactly the rules of load.
	intact, timeouts bool
	limits           []string
	// obsolete are chains of other versions of Contiv.
	obsolete []string
}

// stateOf compares the tables with the ruleset for the timeouts. Missing tables are empty.
func stateOf(found map[*nftables.Table]*nft.Table, timeouts Timeouts) state {
	s := state{intact: true, timeouts: len(found[inet].Chains[chainNew].Rules) > len(commentsOf(inetRules(Timeouts{}), chainNew))}
	if !s.timeouts {
		timeouts = Timeouts{}
	}
	for name, chain := range found[inet].Chains {
		if _, _, ok := limitOf(name); ok {
			_, _, rules := limitChain(name)
			s.limits = append(s.limits, name)
			s.intact = s.intact && slices.Equal(chain.Rules, commentsOf(rules, name))
		} else if !slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Table == inet && c.Name == name }) {
			s.obsolete = append(s.obsolete, name)
			s.intact = false
		}
	}
	for _, want := range chains {
		have, ok := found[want.Table].Chains[want.Name]
		s.intact = s.intact && ok && (have.Hook == nil) == (want.Hooknum == nil) && (have.Hook == nil || !have.Hook.Drops) &&
			slices.Equal(have.Rules, commentsOf(rulesOf(want.Table, timeouts), want.Name))
	}
	return s
}

func commentsOf(rules []rule, chain string) (list []string) {
	for _, r := range rules {
		if r.chain == chain {
			list = append(list, r.comment())
		}
	}
	return list
}

// limitOf is the inverse of limitName. together reports whether interfaces share the count.
func limitOf(chain string) (limit uint32, together, ok bool) {
	text, ok := strings.CutPrefix(chain, limitPrefix)
	text, _, together = strings.Cut(text, togetherMark)
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), together, ok && err == nil
}

func lacksTimeouts(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPROTONOSUPPORT)
}
