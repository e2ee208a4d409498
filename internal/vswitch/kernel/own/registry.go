package own

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Registry holds the existing northbound values by key, interface and route destination. It is safe
// for concurrent use. Its values are immutable.
type Registry struct {
	mu      sync.RWMutex
	values  map[string]proto.Message
	byIface index[string]
	byDst   index[netip.Prefix]
	// withdrawn holds addresses that the driver removed while the value still has them, because it
	// is about to change. The zero prefix stands for borrowed addresses.
	withdrawn map[string]map[netip.Prefix]bool
	// bound holds the bridge domains of interfaces, and the bonds of members, prefixed with
	// BondMark.
	bound map[string]string
}

type index[K comparable] map[K]map[string]struct{}

func (x index[K]) add(k K, key string) {
	if x[k] == nil {
		x[k] = map[string]struct{}{}
	}
	x[k][key] = struct{}{}
}

func (x index[K]) remove(k K, key string) {
	delete(x[k], key)
	if len(x[k]) == 0 {
		delete(x, k)
	}
}

func NewRegistry() *Registry {
	return &Registry{values: map[string]proto.Message{}, byIface: index[string]{}, byDst: index[netip.Prefix]{}, withdrawn: map[string]map[netip.Prefix]bool{}, bound: map[string]string{}}
}

func (r *Registry) Put(v proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putLocked(v)
}

func (r *Registry) putLocked(v proto.Message) {
	key := models.Key(v)
	r.removeLocked(key)
	r.values[key] = v
	for _, name := range interfacesOf(v) {
		r.byIface.add(name, key)
	}
	if dst, ok := destinationOf(v); ok {
		r.byDst.add(dst, key)
	}
}

func (r *Registry) Remove(v proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(models.Key(v))
}

// During removes the value during its deletion, so that the resulting kernel events do not count as
// drift. If the deletion fails, it restores the value.
func (r *Registry) During(v proto.Message, remove func() error) error {
	key := models.Key(v)
	r.mu.Lock()
	known := r.values[key]
	r.removeLocked(key)
	r.mu.Unlock()
	err := remove()
	if err != nil && known != nil {
		r.Put(known)
	}
	return err
}

// Withdraw records that the driver removed an address, or assigned it again.
func (r *Registry) Withdraw(iface string, addr netip.Prefix, away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !away {
		delete(r.withdrawn[iface], addr)
		return
	}
	if r.withdrawn[iface] == nil {
		r.withdrawn[iface] = map[netip.Prefix]bool{}
	}
	r.withdrawn[iface][addr] = true
}

// Bind records the bridge domain of an interface; "": none.
func (r *Registry) Bind(iface, bd string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bd == "" {
		delete(r.bound, iface)
		return
	}
	r.bound[iface] = bd
}

func (r *Registry) IsBound(iface, bd string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bound[iface] == bd
}

// IsMember reports whether the interface is in a bond.
func (r *Registry) IsMember(iface string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return strings.HasPrefix(r.bound[iface], BondMark)
}

// Assigned returns the addresses that an interface should have now, and whether it should have
// borrowed ones.
func (r *Registry) Assigned(iface string) (addrs map[netip.Prefix]bool, borrows bool) {
	value := r.Iface(iface)
	r.mu.RLock()
	defer r.mu.RUnlock()
	addrs = AddressTexts(value)
	maps.DeleteFunc(addrs, func(addr netip.Prefix, _ bool) bool { return r.withdrawn[iface][addr] })
	return addrs, value.GetUnnumbered() != nil && !r.withdrawn[iface][netip.Prefix{}]
}

func (r *Registry) removeLocked(key string) {
	v, ok := r.values[key]
	if !ok {
		return
	}
	delete(r.values, key)
	if iface, ok := v.(*vpp_interfaces.Interface); ok {
		delete(r.withdrawn, iface.GetName())
	}
	for _, name := range interfacesOf(v) {
		r.byIface.remove(name, key)
	}
	if dst, ok := destinationOf(v); ok {
		r.byDst.remove(dst, key)
	}
}

// Settle records which of the expected values List found. The registry holds them as expected, not
// as found.
func Settle[V proto.Message](r *Registry, expected, found []V) {
	exist := make(map[string]bool, len(found))
	for _, v := range found {
		exist[models.Key(v)] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range expected {
		if key := models.Key(v); exist[key] {
			r.putLocked(v)
		} else {
			r.removeLocked(key)
		}
	}
}

func (r *Registry) Get(key string) (proto.Message, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, ok := r.values[key]
	return v, ok
}

func (r *Registry) Iface(name string) *vpp_interfaces.Interface {
	v, _ := r.Get(models.VPPInterfaceKey(name))
	iface, _ := v.(*vpp_interfaces.Interface)
	return iface
}

// Keys returns all keys, sorted.
func (r *Registry) Keys() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.values))
}

// KeysOf returns the keys of values that refer to the interface.
func (r *Registry) KeysOf(iface string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.byIface[iface]))
}

// KeysAfterLoss returns the keys of values that may be lost when an interface loses its device,
// state or address: values that refer to the interface, and routes with a device chosen by the
// kernel.
func (r *Registry) KeysAfterLoss(iface string) []string {
	return append(r.KeysOf(iface), r.KeysOf("")...)
}

// RoutesTo returns the routes to exactly this destination.
func (r *Registry) RoutesTo(dst netip.Prefix) []*vpp_l3.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var routes []*vpp_l3.Route
	for key := range r.byDst[dst] {
		routes = append(routes, r.values[key].(*vpp_l3.Route))
	}
	return routes
}

// All returns the values of one type.
func All[V proto.Message](r *Registry) []V {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var values []V
	for _, v := range r.values {
		if typed, ok := v.(V); ok {
			values = append(values, typed)
		}
	}
	return values
}

// BondMark prefixes the bond of a member in the registry.
const BondMark = "bond/"

// Borrowers returns the unnumbered interfaces, which use the addresses of the lender.
func (v *Host) Borrowers(lender string) (names []string) {
	for _, key := range v.Reg.KeysOf(lender) {
		value, _ := v.Reg.Get(key)
		borrower, ok := value.(*vpp_interfaces.Interface)
		if !ok || borrower.GetUnnumbered().GetInterfaceWithIp() != lender {
			continue
		}
		if _, borrows := v.Reg.Assigned(borrower.GetName()); borrows {
			names = append(names, borrower.GetName())
		}
	}
	return names
}

// Made reports whether the driver created the device of the interface.
func (v *Host) Made(iface string) bool {
	switch v.Reg.Iface(iface).GetType() {
	case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
		return false
	}
	return true
}

// KeysOfAll returns the keys of all values of one type.
func KeysOfAll[V proto.Message](r *Registry) (keys []string) {
	for _, v := range All[V](r) {
		keys = append(keys, models.Key(v))
	}
	return keys
}
