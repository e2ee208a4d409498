package nat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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
)

// newSet describes a set, or with a data type a map.
func (f *natFamily) newSet(name string, key nftables.SetDatatype, data ...nftables.SetDatatype) *nftables.Set {
	s := &nftables.Set{Table: f.table, Name: name, KeyType: key}
	if len(data) > 0 {
		s.IsMap, s.DataType = true, data[0]
	}
	return s
}

func (f *natFamily) sets() []*nftables.Set {
	clients := f.newSet(mapClients, f.clients, f.remembered)
	clients.Dynamic, clients.HasTimeout, clients.Size = true, true, affinitySize
	list := []*nftables.Set{
		f.newSet(mapStatic, f.service, f.backend), f.newSet(setBalanced, f.service), f.newSet(mapTwiceIP, f.service, f.addr), clients, f.unremembered(), f.newSet(setElsewhere, f.usable),
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

func (f *natFamily) classSet(c natClass) *nftables.Set {
	if c.timeout != 0 {
		return f.newSet(c.name(), f.balance, f.sticky)
	}
	return f.newSet(c.name(), f.balance, f.backend)
}

func (f *natFamily) classData(c natClass, backend string) string {
	if c.timeout != 0 {
		return f.nothing + backend
	}
	return backend
}

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
