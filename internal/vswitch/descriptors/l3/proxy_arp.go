package l3

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

func validateProxyARP(p *vpp_l3.ProxyARP) error {
	for _, i := range p.GetInterfaces() {
		if err := descriptor.Required("interfaces.name", i.GetName(), "name the interface"); err != nil {
			return err
		}
	}
	for _, r := range p.GetRanges() {
		err := descriptor.FirstError(descriptor.ValidAddrOf("ranges.first_ip_addr", r.GetFirstIpAddr(), false), descriptor.ValidAddrOf("ranges.last_ip_addr", r.GetLastIpAddr(), false))
		if err != nil {
			return err
		}
		if descriptor.AddrLess(r.GetLastIpAddr(), r.GetFirstIpAddr()) {
			return descriptor.Invalid("ranges.last_ip_addr", "the range ends at %s, before its first address %s", r.GetLastIpAddr(), r.GetFirstIpAddr())
		}
	}
	return nil
}

// proxyARPDescriptor handles config/vpp/v2/proxyarp-global.
func proxyARPDescriptor(port vswitch.ProxyARP) kvscheduler.Descriptor[*vpp_l3.ProxyARP, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l3.ProxyARP, descriptor.NoMeta]{
		Name:     vswitch.ProxyARPDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.ProxyARP.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_l3.ProxyARP) error { return validateProxyARP(p) },
		Equivalent: func(_ string, old, new *vpp_l3.ProxyARP) bool {
			return slices.Equal(rangesOf(old), rangesOf(new)) && slices.Equal(interfacesOfProxyARP(old), interfacesOfProxyARP(new))
		},
		Create:             descriptor.Create(port.Create),
		Update:             descriptor.Update(func(ctx context.Context, _, new *vpp_l3.ProxyARP) error { return port.Create(ctx, new) }),
		Delete:             descriptor.Delete(port.Delete),
		UpdateWithRecreate: func(string, *vpp_l3.ProxyARP, *vpp_l3.ProxyARP, descriptor.NoMeta) bool { return false },
		Retrieve:           descriptor.Retrieve(port.List),
		RetrieveAfter:      []string{vswitch.InterfaceDescriptor},
		DerivedValues: func(_ string, p *vpp_l3.ProxyARP) (derived []kvscheduler.KeyValue) {
			for _, name := range interfacesOfProxyARP(p) {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ProxyARPInterfaceKey(name), Value: descriptor.Empty()})
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
func proxyARPInterfaceDescriptor(port vswitch.ProxyARP) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	prefix := models.ProxyARPInterfaceKey("")
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.ProxyARPInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: prefix},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (descriptor.NoMeta, error) {
			return descriptor.NoMeta{}, port.AddInterface(ctx, strings.TrimPrefix(key, prefix))
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ descriptor.NoMeta) error {
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

// rangesOf returns the distinct ranges in order.
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
