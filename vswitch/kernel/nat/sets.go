package nat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
)

// Names of sets and maps.
const (
	setInside        = "nat-inside"   // devices; comment: the name of the interface, see natInterface
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
	mapClients       = "nat-clients"  // port of a value, client -> backend; filled by packets
	mapAffinity      = "nat-affinity" // service, client -> backend; only in tables that earlier versions made, until the node boots

	prefixBalance = "nat-balance-" // maps of a natClass: [scope,] service, slot -> backend
	prefixPort    = "nat-port"     // maps, with the scope: services with session affinity -> seconds, port of a value
	prefixApart   = "nat-apart"    // likewise, for clients whose backend of the port is none of the service
	prefixUsable  = "nat-usable"   // sets, with the scope: service with session affinity, backend
)

// newSet describes a set, or a map if there is a data type.
func (f *natFamily) newSet(name string, key nftables.SetDatatype, data ...nftables.SetDatatype) *nftables.Set {
	s := &nftables.Set{Table: f.table, Name: name, KeyType: key}
	if len(data) > 0 {
		s.IsMap, s.DataType = true, data[0]
	}
	return s
}

// sets returns the sets that always exist.
func (f *natFamily) sets() []*nftables.Set {
	clients := f.newSet(mapClients, f.clients, f.remembered)
	clients.Dynamic, clients.HasTimeout, clients.Size = true, true, affinitySize
	list := []*nftables.Set{
		f.newSet(mapStatic, f.service, f.backend), f.newSet(setBalanced, f.service), f.newSet(mapTwiceIP, f.service, f.addr), clients,
	}
	for _, scope := range natScopes {
		list = append(list, f.newSet(scope.port(), f.service, f.ported), f.newSet(scope.apart(), f.service, f.ported), f.newSet(scope.usable(), f.usable))
	}
	list = append(list, f.serviceSets()...)
	if f == nat6 {
		return append(list, f.newSet(mapSelfIP, f.self, f.addr))
	}
	for _, name := range deviceSets {
		list = append(list, f.newSet(name, nftables.TypeIFName))
	}
	return append(list,
		f.newSet(mapProtocol, f.protocol, f.addr), f.newSet(mapAddress, f.addr, f.addr), f.newSet(setTwice, f.service), f.newSet(setSelf, f.self), f.newSet(mapSelfIP, f.self, f.addr),
		f.newSet(setIdentity, f.service), f.newSet(setIdentityProto, f.protocol), f.newSet(setIdentityAddr, f.addr))
}

// deviceSets are those of interfaces, which only IPv4 has.
var deviceSets = []string{setInside, setOutside, setOutput}

// affinitySize bounds the number of remembered clients. For clients beyond it, each connection is
// balanced on its own.
const affinitySize = 1 << 20

// natClass is what services have in common that share a map of backends and the
// rules to pick from it: the number of slots, since the kernel draws from a fixed
// range, the seconds that clients keep their backend, 0 for those that do not, and which
// clients they are for.
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

func (f *natFamily) classSet(c natClass) *nftables.Set {
	if c.timeout != 0 {
		return f.newSet(c.name(), f.balance, f.sticky)
	}
	return f.newSet(c.name(), f.balance, f.backend)
}

// classData is what an element of the map says.
func (f *natFamily) classData(c natClass, backend string) string {
	if c.timeout != 0 {
		return f.nothing + backend
	}
	return backend
}

// hasSet reports whether a set of that name is one of ours.
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
