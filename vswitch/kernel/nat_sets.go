package kernel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/nftables"
)

// Types of the keys of sets and maps. A service is an external address with
// protocol and port.
var (
	serviceType   = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	protocolType  = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto)
	backendType   = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	stickyType    = nftables.MustConcatSetType(nftables.TypeMark, nftables.TypeIPAddr, nftables.TypeInetService)
	balanceType   = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeMark)
	affinityType  = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeIPAddr)
	selfType      = nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService, nftables.TypeIPAddr, nftables.TypeIPAddr)
	serviceLength = int(serviceType.Bytes)
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
	setSticky        = "nat-sticky"   // services with session affinity
	setSelf          = "nat-self"     // service, backend, backend
	setIdentity      = "nat-identity" // address, protocol and port; comment: label
	setIdentityProto = "nat-identity-protocol"
	setIdentityAddr  = "nat-identity-address"
	mapAffinity      = "nat-affinity" // service, client -> backend; filled by packets

	prefixBalance = "nat-balance-" // maps of a natClass: service, slot -> backend
)

var natTableRef = &nftables.Table{Name: natTable, Family: nftables.TableFamilyIPv4}

// newNATSet describes a set, or a map if there is a data type.
func newNATSet(name string, key nftables.SetDatatype, data ...nftables.SetDatatype) *nftables.Set {
	s := &nftables.Set{Table: natTableRef, Name: name, KeyType: key}
	if len(data) > 0 {
		s.IsMap, s.DataType = true, data[0]
	}
	return s
}

// natSets returns the sets that always exist.
func natSets() []*nftables.Set {
	affinity := newNATSet(mapAffinity, affinityType, backendType)
	affinity.Dynamic, affinity.HasTimeout, affinity.Size = true, true, affinitySize
	return []*nftables.Set{
		newNATSet(setInside, nftables.TypeIFName), newNATSet(setOutside, nftables.TypeIFName), newNATSet(setOutput, nftables.TypeIFName),
		newNATSet(mapStatic, serviceType, backendType), newNATSet(setBalanced, serviceType),
		newNATSet(mapProtocol, protocolType, nftables.TypeIPAddr), newNATSet(mapAddress, nftables.TypeIPAddr, nftables.TypeIPAddr),
		newNATSet(setTwice, serviceType), newNATSet(mapTwiceIP, serviceType, nftables.TypeIPAddr), newNATSet(setSelf, selfType), newNATSet(setSticky, serviceType),
		newNATSet(setIdentity, serviceType), newNATSet(setIdentityProto, protocolType), newNATSet(setIdentityAddr, nftables.TypeIPAddr),
		affinity,
	}
}

// affinitySize bounds how many clients are remembered; those beyond are balanced
// anew with each connection.
const affinitySize = 1 << 20

// natClass is what services have in common that share a map of backends and the
// rules to pick from it: the number of slots, since the kernel draws from a fixed
// range, and the seconds that clients keep their backend, 0 for those that do not.
type natClass struct{ slots, timeout uint32 }

func (c natClass) name() string {
	if c.timeout == 0 {
		return fmt.Sprintf("%s%d", prefixBalance, c.slots)
	}
	return fmt.Sprintf("%s%d-%d", prefixBalance, c.slots, c.timeout)
}

func (c natClass) set() *nftables.Set {
	if c.timeout != 0 {
		return newNATSet(c.name(), balanceType, stickyType)
	}
	return newNATSet(c.name(), balanceType, backendType)
}

// data is what an element of the map says.
func (c natClass) data(backend string) string {
	if c.timeout != 0 {
		return nothing + backend
	}
	return backend
}

// nothing fills the register in front of a backend, see natState.balance.
const nothing = "\x00\x00\x00\x00"

// setNamed describes a set of ours by its name; nil: there is none of that name.
func setNamed(name string) *nftables.Set {
	for _, s := range natSets() {
		if s.Name == name {
			return s
		}
	}
	if c, ok := classNamed(name); ok {
		return c.set()
	}
	return nil
}

func classNamed(name string) (c natClass, ok bool) {
	numbers, ok := strings.CutPrefix(name, prefixBalance)
	if !ok {
		return c, false
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
