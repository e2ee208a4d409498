package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
)

type interfaceItem = kvscheduler.Item[*linuxInterface, InterfaceMetadata]

// retrieveInterfaces reads the interfaces in the agent's namespace, in the namespaces of expected
// and of known interfaces, in those that we made, and in those of microservices.
//
//  1. Group the expected interfaces by the identity of their namespace.
//  2. In each namespace list devices and addresses, once.
//  3. A device with our mark is an interface, expected or not; any other device is
//     one only if an interface of type EXISTING is expected on it.
func (p *Plugin) retrieveInterfaces(ctx context.Context, expected []interfaceItem) ([]interfaceItem, error) {
	r := p.newRetrieval(expected)
	if err := r.plan(p.inventory.namespaces()); err != nil {
		return nil, err
	}
	r.visit(p.namespaces.Own.ID, nil)
	for _, ref := range append(p.namespaces.Made(), p.microservices.Refs()...) {
		if id, err := p.namespaces.Identify(ref); err == nil {
			r.visit(id, ref)
		}
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	for _, name := range p.inventory.names() {
		if _, found := r.found[name]; !found {
			p.inventory.remove(name)
		}
	}
	return r.items(), nil
}

// retrieveInterfaceKeys reads only the namespaces of the given interfaces.
func (p *Plugin) retrieveInterfaceKeys(ctx context.Context, expected []interfaceItem) ([]interfaceItem, error) {
	r := p.newRetrieval(expected)
	r.onlyExpected = true
	if err := r.plan(nil); err != nil {
		return nil, err
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return r.items(), nil
}

type retrieval struct {
	p            *Plugin
	expected     map[string]*linuxInterface // by logical name
	expectedIn   map[namespaces.ID][]*linuxInterface
	namespaces   []namespaces.ID
	refs         map[namespaces.ID]*linux_namespace.NetNamespace
	onlyExpected bool

	// own holds the devices of the agent's namespace by index; nil before they are read.
	own   map[int]netlink.Link
	found map[string]interfaceItem
}

func (p *Plugin) newRetrieval(expected []interfaceItem) *retrieval {
	r := &retrieval{
		p:          p,
		expected:   make(map[string]*linuxInterface, len(expected)),
		expectedIn: map[namespaces.ID][]*linuxInterface{},
		refs:       map[namespaces.ID]*linux_namespace.NetNamespace{},
		found:      map[string]interfaceItem{},
	}
	for _, item := range expected {
		r.expected[item.Value.GetName()] = item.Value
	}
	return r
}

// plan selects the namespaces to read. Namespaces that are gone hold nothing.
func (r *retrieval) plan(known map[namespaces.ID]*linux_namespace.NetNamespace) error {
	for id, ref := range known {
		if now, err := r.p.namespaces.Identify(ref); err == nil && now == id {
			r.visit(id, ref)
		}
	}
	for _, v := range r.expected {
		id, err := r.p.namespaces.Identify(v.GetNamespace())
		if errors.Is(err, namespaces.ErrGone) {
			continue
		}
		if err != nil {
			return fmt.Errorf("retrieve interface %s: %w", v.GetName(), err)
		}
		r.visit(id, v.GetNamespace())
		r.expectedIn[id] = append(r.expectedIn[id], v)
	}
	return nil
}

func (r *retrieval) visit(id namespaces.ID, ref *linux_namespace.NetNamespace) {
	if _, planned := r.refs[id]; !planned {
		r.refs[id] = ref
		r.namespaces = append(r.namespaces, id)
	}
}

func (r *retrieval) run(ctx context.Context) error {
	// The agent's namespace comes first, because the others refer to its devices.
	own := r.p.namespaces.Own.ID
	slices.SortStableFunc(r.namespaces, func(a, b namespaces.ID) int {
		switch {
		case a == own && b != own:
			return -1
		case b == own && a != own:
			return 1
		}
		return 0
	})
	for _, id := range r.namespaces {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.read(id); err != nil && !errors.Is(err, namespaces.ErrGone) {
			return fmt.Errorf("retrieve interfaces: %w", err)
		}
	}
	return nil
}

func (r *retrieval) read(id namespaces.ID) error {
	ns, err := r.p.namespaces.Acquire(r.refs[id])
	if err != nil {
		return err
	}
	defer r.p.namespaces.Release(ns)
	links, err := ns.Links()
	if err != nil {
		return err
	}
	if ns == r.p.namespaces.Own {
		r.own = make(map[int]netlink.Link, len(links))
		for _, l := range links {
			r.own[l.Attrs().Index] = l
		}
	}
	interesting := r.interesting(ns, links)
	if len(interesting) == 0 && ns != r.p.namespaces.Own {
		return nil
	}
	addresses, err := ns.AllAddresses()
	if err != nil {
		return err
	}
	if ns == r.p.namespaces.Own && !r.onlyExpected {
		addLeftovers(interesting, links, addresses)
	}
	nsid := -1 // the number of this namespace in the agent's namespace
	if ns != r.p.namespaces.Own {
		nsid, _ = r.p.namespaces.Number(ns)
	}
	for name, link := range interesting {
		v := r.describe(id, nsid, name, link, addresses)
		if v.GetVeth() != nil {
			describeOffloading(ns, link.Attrs().Name, v.GetVeth(), r.expected[name].GetVeth())
		}
		r.found[name] = interfaceItem{
			Key: models.LinuxInterfaceKey(name), Value: v, Metadata: metadataOf(v, link.Attrs().Index), Origin: kvscheduler.FromNB,
		}
		if r.onlyExpected {
			r.p.inventory.note(v, deviceID{ns: id, index: link.Attrs().Index})
			r.p.listenTo(ns)
		} else {
			r.p.remember(ns, v, link.Attrs().Index)
			r.p.inventory.forgetAddresses(name)
		}
		for _, text := range v.GetIpAddresses() {
			if addr, err := r.p.addressOf(text, v); err == nil {
				r.p.inventory.setAddress(name, addr, true)
			}
		}
	}
	return nil
}

// interesting returns the devices that are interfaces, by logical name.
func (r *retrieval) interesting(ns *namespaces.Namespace, links []netlink.Link) map[string]netlink.Link {
	names := map[string]netlink.Link{}
	for _, link := range links {
		name, ours := logicalName(link.Attrs().Alias)
		if !ours {
			continue
		}
		if want := r.expected[name]; want == nil && r.onlyExpected || isExisting(want) {
			continue
		}
		// If two devices have the same mark, the one in the expected namespace wins.
		if _, twice := r.found[name]; twice && !slices.Contains(r.expectedIn[ns.ID], r.expected[name]) {
			continue
		}
		names[name] = link
	}
	for _, want := range r.expectedIn[ns.ID] {
		if !isExisting(want) {
			continue
		}
		link := findByName(links, deviceName(want))
		if link == nil {
			continue
		}
		if _, ours := logicalName(link.Attrs().Alias); !ours {
			names[want.GetName()] = link
		}
	}
	return names
}

// unknownPrefix starts the logical names of foreign devices that are no longer requested but still
// have our addresses.
const unknownPrefix = "UNKNOWN-"

func isLeftover(name string, link netlink.Link) bool { return name == unknownPrefix+link.Attrs().Name }

// addLeftovers adds the foreign devices that have our addresses but no expected interface.
func addLeftovers(names map[string]netlink.Link, links []netlink.Link, addresses []rtnl.Address) {
	known := map[int]bool{}
	for _, link := range names {
		known[link.Attrs().Index] = true
	}
	for _, a := range addresses {
		link := findByIndex(links, a.Index)
		if a.Proto == ownProtocol && link != nil && !known[a.Index] && !strings.HasPrefix(link.Attrs().Alias, contivAliasPrefix) {
			names[unknownPrefix+link.Attrs().Name] = link
		}
	}
}

func (r *retrieval) describe(ns namespaces.ID, nsid int, name string, link netlink.Link, addresses []rtnl.Address) *linuxInterface {
	attrs := link.Attrs()
	want := r.expected[name]
	v := &linuxInterface{
		Name: name, Namespace: r.refs[ns], HostIfName: attrs.Name,
		Enabled: isUp(link), PhysAddress: attrs.HardwareAddr.String(), Mtu: uint32(attrs.MTU),
	}
	if want != nil {
		v.LinkOnly = want.GetLinkOnly()
		if slices.Contains(r.expectedIn[ns], want) {
			v.Namespace = want.GetNamespace()
		}
		if want.GetHostIfName() == "" && deviceName(want) == attrs.Name {
			v.HostIfName = ""
		}
		if isExisting(want) {
			v.Enabled = want.GetEnabled() // the owner of the device decides
		}
	}
	if attrs.Name == loopbackName {
		v.PhysAddress = ""
	}
	r.describeKind(v, nsid, link, want)
	if attrs.MasterIndex != 0 && want.GetVrfMasterInterface() != "" {
		v.VrfMasterInterface = want.GetVrfMasterInterface()
	}
	v.IpAddresses = r.addressesOf(attrs.Index, addresses, want)
	return v
}

func (r *retrieval) describeKind(v *linuxInterface, nsid int, link netlink.Link, want *linuxInterface) {
	switch link := link.(type) {
	case *netlink.Dummy:
		v.Type = linux_interfaces.Interface_DUMMY
	case *netlink.Vrf:
		v.Type = linux_interfaces.Interface_VRF_DEVICE
		v.Link = &linux_interfaces.Interface_VrfDev{VrfDev: &linux_interfaces.VrfDevLink{RoutingTable: link.Table}}
	case *netlink.Veth:
		r.describeVeth(v, nsid, link, want)
	default:
		v.Type = linux_interfaces.Interface_TAP_TO_VPP
		v.Link = &linux_interfaces.Interface_Tap{Tap: &linux_interfaces.TapLink{VppTapIfName: want.GetTap().GetVppTapIfName()}}
	}
	if link.Attrs().Name == loopbackName {
		v.Type, v.Link = linux_interfaces.Interface_LOOPBACK, nil
	}
	if isExisting(want) || isLeftover(v.GetName(), link) {
		v.Type, v.Link = linux_interfaces.Interface_EXISTING, nil
	}
}

// describeVeth tells a TAP end from a veth of ours by the peer, if that is in the agent's
// namespace, and otherwise by the expected value.
func (r *retrieval) describeVeth(v *linuxInterface, nsid int, link netlink.Link, want *linuxInterface) {
	tap, peer := "", want.GetVeth().GetPeerIfName()
	if want.GetType() == linux_interfaces.Interface_TAP_TO_VPP {
		tap = want.GetTap().GetVppTapIfName()
	}
	attrs := link.Attrs()
	if other := r.own[attrs.ParentIndex]; other != nil && other.Attrs().ParentIndex == attrs.Index && other.Attrs().NetNsID == nsid {
		alias := other.Attrs().Alias
		if name, ok := strings.CutPrefix(alias, vppAliasPrefix); ok {
			tap = name
		} else if name, ok := logicalName(alias); ok {
			tap, peer = "", name
		}
	}
	if tap != "" {
		v.Type = linux_interfaces.Interface_TAP_TO_VPP
		v.Link = &linux_interfaces.Interface_Tap{Tap: &linux_interfaces.TapLink{VppTapIfName: tap}}
		return
	}
	v.Type = linux_interfaces.Interface_VETH
	v.Link = &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: peer}}
}

// addressesOf returns the addresses of the device that are wanted or that we added, unless another
// interface wants them on the same device. If the addresses are not ours to configure, it returns
// the wanted ones.
func (r *retrieval) addressesOf(index int, addresses []rtnl.Address, want *linuxInterface) []string {
	if want.GetLinkOnly() {
		return want.GetIpAddresses()
	}
	wanted, others := map[netip.Prefix]bool{}, map[netip.Prefix]bool{}
	r.addAddresses(wanted, want)
	for _, other := range r.expected {
		if isExisting(want) && other != want && isExisting(other) && deviceName(other) == deviceName(want) && namespaces.Same(other.GetNamespace(), want.GetNamespace()) {
			r.addAddresses(others, other)
		}
	}
	var texts []string
	for _, a := range addresses {
		if a.Index == index && (wanted[a.Prefix] || a.Proto == ownProtocol && !others[a.Prefix]) {
			texts = append(texts, a.Prefix.String())
		}
	}
	return r.p.alloc.Restore(texts, want.GetIpAddresses(), want.GetName())
}

func (r *retrieval) addAddresses(set map[netip.Prefix]bool, v *linuxInterface) {
	for _, text := range v.GetIpAddresses() {
		if prefix, err := r.p.addressOf(text, v); err == nil {
			set[prefix] = true
		}
	}
}

func (r *retrieval) items() []interfaceItem {
	items := make([]interfaceItem, 0, len(r.found))
	for _, item := range r.found {
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b interfaceItem) int { return strings.Compare(a.Key, b.Key) })
	return items
}
