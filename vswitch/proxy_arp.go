package vswitch

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// ProxyARP answers ARP requests for addresses of others. There is one value, of which
// Create sets the ranges: interfaces are added by calls of their own.
type ProxyARP interface {
	Values[*vpp_l3.ProxyARP]
	// AddInterface answers for the addresses of the ranges on an existing interface.
	AddInterface(ctx context.Context, iface string) error
	RemoveInterface(ctx context.Context, iface string) error
}

// proxyARPDescriptor handles config/vpp/v2/proxyarp-global.
func proxyARPDescriptor(port ProxyARP) kvscheduler.Descriptor[*vpp_l3.ProxyARP, noMeta] {
	return kvscheduler.Descriptor[*vpp_l3.ProxyARP, noMeta]{
		Name:     ProxyARPDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.ProxyARP.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_l3.ProxyARP) error { return validateProxyARP(p) },
		Equivalent: func(_ string, old, new *vpp_l3.ProxyARP) bool {
			return slices.Equal(rangesOf(old), rangesOf(new)) && slices.Equal(interfacesOfProxyARP(old), interfacesOfProxyARP(new))
		},
		Create:             create(port.Create),
		Update:             update(func(ctx context.Context, _, new *vpp_l3.ProxyARP) error { return port.Create(ctx, new) }),
		Delete:             remove(port.Delete),
		UpdateWithRecreate: func(string, *vpp_l3.ProxyARP, *vpp_l3.ProxyARP, noMeta) bool { return false },
		Retrieve:           retrieve(port.List),
		RetrieveAfter:      []string{InterfaceDescriptor},
		DerivedValues: func(_ string, p *vpp_l3.ProxyARP) (derived []kvscheduler.KeyValue) {
			for _, name := range interfacesOfProxyARP(p) {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ProxyARPInterfaceKey(name), Value: empty()})
			}
			return derived
		},
		Dependencies: func(_ string, p *vpp_l3.ProxyARP) (deps []kvscheduler.Dependency) {
			seen := map[uint32]bool{0: true}
			for _, r := range p.GetRanges() {
				if vrf := r.GetVrfId(); !seen[vrf] {
					seen[vrf] = true
					key := models.VRFTableKey(vrf, false)
					deps = append(deps, kvscheduler.Dependency{Label: "vrf-table-exists-" + key[len(models.VRFTable.KeyPrefix()):], Key: key})
				}
			}
			return deps
		},
	}
}

// proxyARPInterfaceDescriptor handles vpp/proxyarp/interface/{if}.
func proxyARPInterfaceDescriptor(port ProxyARP) kvscheduler.Descriptor[*emptypb.Empty, noMeta] {
	prefix := models.ProxyARPInterfaceKey("")
	return kvscheduler.Descriptor[*emptypb.Empty, noMeta]{
		Name: ProxyARPInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: prefix},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (noMeta, error) {
			return noMeta{}, port.AddInterface(ctx, strings.TrimPrefix(key, prefix))
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ noMeta) error {
			return port.RemoveInterface(ctx, strings.TrimPrefix(key, prefix))
		},
		Dependencies: func(key string, _ *emptypb.Empty) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(strings.TrimPrefix(key, prefix))}}
		},
	}
}

type proxyRange struct {
	first, last netip.Addr
	vrf         uint32
}

// rangesOf returns the ranges in order, each once.
func rangesOf(p *vpp_l3.ProxyARP) (list []proxyRange) {
	for _, r := range p.GetRanges() {
		first, _ := netip.ParseAddr(r.GetFirstIpAddr())
		last, _ := netip.ParseAddr(r.GetLastIpAddr())
		list = append(list, proxyRange{first, last, r.GetVrfId()})
	}
	slices.SortFunc(list, func(a, b proxyRange) int {
		if c := a.first.Compare(b.first); c != 0 {
			return c
		}
		if c := a.last.Compare(b.last); c != 0 {
			return c
		}
		return int(int64(a.vrf) - int64(b.vrf))
	})
	return slices.Compact(list)
}

func interfacesOfProxyARP(p *vpp_l3.ProxyARP) (names []string) {
	for _, i := range p.GetInterfaces() {
		names = append(names, i.GetName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
