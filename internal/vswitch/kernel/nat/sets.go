package nat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"

	"github.com/google/nftables"
)

const (
	setInside        = "nat-inside"   // devices; comment: interface name, see natInterface
	setOutside       = "nat-outside"  // likewise
	setOutput        = "nat-output"   // likewise
	mapStatic        = "nat-static"   // service -> address and port; comment: label
	setBalanced      = "nat-balanced" // services with several backends; comment: label
	mapProtocol      = "nat-protocol" // address and protocol -> address; comment: label
	mapAddress       = "nat-address"  // address -> address; comment: label
	setTwice         = "nat-twice"    // services with twice-NAT
	mapTwiceIP       = "nat-twice-ip" // likewise -> the source address
	mapSelfIP        = "nat-self-ip"  // service, client, backend -> the source address
	setSelf          = "nat-self"     // service, client, backend: the client is the backend
	setIdentity      = "nat-identity" // address, protocol and port; comment: label
	setIdentityProto = "nat-identity-protocol"
	setIdentityAddr  = "nat-identity-address"
	mapClients       = "nat-clients"   // port of a value, client -> backend; filled by packets
	setElsewhere     = "nat-elsewhere" // service, backend: backends of the port of a value that the service lacks

	prefixBalance = "nat-balance-" // maps of a natClass: [scope,] service, slot -> backend
	prefixPort    = "nat-port"     // maps per scope: services with session affinity -> seconds, port of a value
	prefixApart   = "nat-apart"    // likewise, for clients with an unusable backend of the port
	prefixUsable  = "nat-usable"   // sets per scope: service with session affinity, backend

	setBalancedIn  = "nat-balanced-in"  // services with backends for clients inside; comment: label
	setBalancedOut = "nat-balanced-out" // likewise, outside
	setBalancedOwn = "nat-balanced-own" // likewise, processes of the node
	setRefused     = "nat-refused"      // services without backends; comment: label
	setDropped     = "nat-dropped"      // likewise
	setRestricted  = "nat-restricted"   // services with source ranges
	setAllowed     = "nat-allowed"      // service, client; keys are ranges
	setMasquerade  = "nat-masquerade"   // services that hide external clients
	setReset       = "nat-reset"        // services that end TCP connections to removed backends; not used by rules
)

// newSet describes a set, or with a data type a map.
func newSet(name string, key nftables.SetDatatype, data ...nftables.SetDatatype) *nftables.Set {
	s := &nftables.Set{Name: name, KeyType: key}
	if len(data) > 0 {
		s.IsMap, s.DataType = true, data[0]
	}
	return s
}

var concat = nftables.MustConcatSetType

// serviceAnd returns the type of keys that consist of a service and other parts.
func (f *natFamily) serviceAnd(parts ...nftables.SetDatatype) nftables.SetDatatype {
	return concat(slices.Concat([]nftables.SetDatatype{f.addr, nftables.TypeInetProto, nftables.TypeInetService}, parts)...)
}

func (f *natFamily) sets() (list []*nftables.Set) {
	addr, protocol, port, mark := f.addr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark
	service, backend := f.serviceAnd(), concat(addr, port)
	usable := f.serviceAnd(addr, port)
	add := func(sets ...*nftables.Set) { list = append(list, sets...) }

	add(newSet(mapStatic, service, backend), newSet(mapTwiceIP, service, addr), newSet(mapSelfIP, f.serviceAnd(addr, addr), addr))
	for _, name := range []string{
		setBalanced, setBalancedIn, setBalancedOut, setBalancedOwn, setRefused, setDropped, setRestricted, setMasquerade, setReset,
	} {
		add(newSet(name, service))
	}
	allowed := newSet(setAllowed, f.serviceAnd(addr))
	allowed.Interval = true
	add(allowed)

	clients := newSet(mapClients, concat(mark, protocol, port, addr), concat(mark, addr, port))
	clients.Dynamic, clients.HasTimeout, clients.Size = true, true, affinitySize
	unremembered := newSet(setUnremembered, protocol)
	unremembered.Dynamic, unremembered.Size = true, 256
	add(clients, unremembered, newSet(setElsewhere, usable))
	for _, scope := range natScopes {
		ported := concat(mark, mark, protocol, port)
		add(newSet(scope.port(), service, ported), newSet(scope.apart(), service, ported), newSet(scope.usable(), usable))
	}
	if f == nat6 {
		return list
	}

	for _, name := range deviceSets {
		add(newSet(name, nftables.TypeIFName))
	}
	add(newSet(mapProtocol, concat(addr, protocol), addr), newSet(mapAddress, addr, addr))
	add(newSet(setTwice, service), newSet(setSelf, f.serviceAnd(addr, addr)))
	add(newSet(setIdentity, service), newSet(setIdentityProto, concat(addr, protocol)), newSet(setIdentityAddr, addr))
	return list
}

// deviceSets are the sets of interfaces, for IPv4 only.
var deviceSets = []string{setInside, setOutside, setOutput}

// affinitySize bounds the number of remembered clients. Connections of further clients are balanced
// individually, and counted in nat-unremembered.
const affinitySize = 1 << 20

// natClass groups services that share a map of backends and the rules to draw from it: the number
// of slots, because the kernel draws from a fixed range, the affinity timeout in seconds (0: none),
// and the scope of clients.
type natClass struct {
	slots, timeout uint32
	scope          natScope
}

func (c natClass) name() string {
	name := fmt.Sprintf("%s%s%d", prefixBalance, c.scope.infix(), c.slots)
	if c.timeout == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, c.timeout)
}

// addClass adds the map of a class. With an affinity timeout, filler precedes the backends.
func (f *natFamily) addClass(b *nft.Batch, c natClass) {
	key, backend := f.serviceAnd(nftables.TypeMark), concat(f.addr, nftables.TypeInetService)
	if c.timeout != 0 {
		b.AddSet(newSet(c.name(), key, concat(f.filler, f.addr, nftables.TypeInetService)))
		return
	}
	b.AddTypeofMap(newSet(c.name(), key, backend), f.names.Replace(c.slotKey()), f.names.Replace("$address . th dport"))
}

// slotKey is the key of a random slot of a service.
func (c natClass) slotKey() string {
	return fmt.Sprintf("$service . numgen random mod %d", c.slots)
}

// classData returns the data of a backend in the map of a class.
func (f *natFamily) classData(c natClass, backend string) string {
	if c.timeout != 0 {
		return f.nothing() + backend
	}
	return backend
}

// nothing is the filler.
func (f *natFamily) nothing() string { return zeros[:f.addressLength()] }

const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func (f *natFamily) hasSet(name string) bool {
	_, isClass := classNamed(name)
	return isClass || slices.ContainsFunc(f.sets(), func(s *nftables.Set) bool { return s.Name == name })
}

func classNamed(name string) (c natClass, ok bool) {
	numbers, ok := strings.CutPrefix(name, prefixBalance)
	if !ok {
		return c, false
	}
	for _, scope := range natScopes {
		if rest, ok := strings.CutPrefix(numbers, scope.infix()); ok && scope != "" {
			c.scope, numbers = scope, rest
		}
	}
	slots, timeout, sticky := strings.Cut(numbers, "-")
	n, err := strconv.ParseUint(slots, 10, 32)
	if c.slots = uint32(n); err != nil || n == 0 {
		return natClass{}, false
	}
	if sticky {
		n, err = strconv.ParseUint(timeout, 10, 32)
		c.timeout = uint32(n)
	}
	return c, err == nil
}
