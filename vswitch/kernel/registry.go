package kernel

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// registry remembers the northbound values that exist, by key, by the interfaces
// that they touch and by the destination of routes. It is safe for concurrent
// use. Values in it are not changed.
type registry struct {
	mu      sync.RWMutex
	values  map[string]proto.Message
	byIface index[string]
	byDst   index[netip.Prefix]
	// withdrawn are addresses that we have taken away, though the value of the
	// interface still has them: it is about to change or go. The zero prefix stands
	// for those borrowed.
	withdrawn map[string]map[netip.Prefix]bool
	// bound are the bridge domains of the interfaces that are in one, and the bonds of
	// their members, with bondMark before the name.
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

func newRegistry() *registry {
	return &registry{values: map[string]proto.Message{}, byIface: index[string]{}, byDst: index[netip.Prefix]{}, withdrawn: map[string]map[netip.Prefix]bool{}, bound: map[string]string{}}
}

func (r *registry) put(v proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.putLocked(v)
}

func (r *registry) putLocked(v proto.Message) {
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

func (r *registry) remove(v proto.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(models.Key(v))
}

// during takes the value out while it is being deleted, so that what the kernel
// then reports is no news; it is put back if that fails.
func (r *registry) during(v proto.Message, remove func() error) error {
	key := models.Key(v)
	r.mu.Lock()
	known := r.values[key]
	r.removeLocked(key)
	r.mu.Unlock()
	err := remove()
	if err != nil && known != nil {
		r.put(known)
	}
	return err
}

// withdraw notes that an address was taken away by us, or given again.
func (r *registry) withdraw(iface string, addr netip.Prefix, away bool) {
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

// bind notes the bridge domain that an interface is in; "": none.
func (r *registry) bind(iface, bd string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bd == "" {
		delete(r.bound, iface)
		return
	}
	r.bound[iface] = bd
}

func (r *registry) isBound(iface, bd string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.bound[iface] == bd
}

// isMember tells if the interface is in a bond.
func (r *registry) isMember(iface string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return strings.HasPrefix(r.bound[iface], bondMark)
}

// assigned returns the addresses that an interface should have now, and if it
// should have borrowed ones.
func (r *registry) assigned(iface string) (addrs map[netip.Prefix]bool, borrows bool) {
	value := r.iface(iface)
	r.mu.RLock()
	defer r.mu.RUnlock()
	addrs = addressTexts(value)
	maps.DeleteFunc(addrs, func(addr netip.Prefix, _ bool) bool { return r.withdrawn[iface][addr] })
	return addrs, value.GetUnnumbered() != nil && !r.withdrawn[iface][netip.Prefix{}]
}

func (r *registry) removeLocked(key string) {
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

// settle notes what List found out: which of the expected values exist. They are
// remembered as expected, not as found.
func settle[V proto.Message](r *registry, expected, found []V) {
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

func (r *registry) get(key string) (proto.Message, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, ok := r.values[key]
	return v, ok
}

func (r *registry) iface(name string) *vpp_interfaces.Interface {
	v, _ := r.get(models.VPPInterfaceKey(name))
	iface, _ := v.(*vpp_interfaces.Interface)
	return iface
}

// keys returns all keys, sorted.
func (r *registry) keys() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.values))
}

// keysOf returns the keys of values that touch the interface.
func (r *registry) keysOf(iface string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.byIface[iface]))
}

// keysAfterLoss returns the keys of what may be gone when an interface has lost its
// device, its state or an address: what touches it, and routes whose device is for
// the kernel to find.
func (r *registry) keysAfterLoss(iface string) []string {
	return append(r.keysOf(iface), r.keysOf("")...)
}

// routesTo returns the routes to exactly this destination.
func (r *registry) routesTo(dst netip.Prefix) []*vpp_l3.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var routes []*vpp_l3.Route
	for key := range r.byDst[dst] {
		routes = append(routes, r.values[key].(*vpp_l3.Route))
	}
	return routes
}

// all returns the values of one type.
func all[V proto.Message](r *registry) []V {
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

func interfacesOf(v proto.Message) []string {
	if names := interfacesOfFeature(v); names != nil {
		return names
	}
	switch v := v.(type) {
	case *vpp_interfaces.Interface:
		names := []string{v.GetName()}
		for _, other := range []string{v.GetUnnumbered().GetInterfaceWithIp(), v.GetSub().GetParentName(), v.GetVxlan().GetMulticast()} {
			if other != "" {
				names = append(names, other)
			}
		}
		for _, member := range v.GetBond().GetBondedInterfaces() {
			names = append(names, member.GetName())
		}
		return names
	case *vpp_l2.BridgeDomain:
		names := make([]string, len(v.GetInterfaces()))
		for i, iface := range v.GetInterfaces() {
			names[i] = iface.GetName()
		}
		return names
	case *vpp_wireguard.Peer:
		return []string{v.GetWgIfName()}
	case *vpp_l2.FIBEntry:
		return []string{v.GetOutgoingInterface()}
	case *vpp_l3.Route:
		return []string{v.GetOutgoingInterface()}
	case *vpp_l3.ARPEntry:
		return []string{v.GetInterface()}
	case *vpp_nat.Nat44Interface:
		return []string{v.GetName()}
	case *vpp_nat.DNat44:
		return externalInterfaces(v)
	case *contiv_nat.SourceNAT66:
		return []string{v.GetInterface()}
	case *vpp_acl.ACL:
		return slices.Concat(v.GetInterfaces().GetIngress(), v.GetInterfaces().GetEgress())
	}
	return nil
}

func destinationOf(v proto.Message) (netip.Prefix, bool) {
	route, ok := v.(*vpp_l3.Route)
	if !ok {
		return netip.Prefix{}, false
	}
	dst, err := netip.ParsePrefix(route.GetDstNetwork())
	return dst.Masked(), err == nil
}
