package proxy

import (
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/podports"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// replace requests the values that differ, and returns them, old and new. Afterwards, after contains
// copies, because a transaction may change its values.
func replace(before, after map[string]proto.Message, txn controller.UpdateOperations) (touched []proto.Message) {
	for key, value := range before {
		if after[key] == nil {
			touched = append(touched, value)
			txn.Delete(key)
		}
	}
	for key, value := range after {
		old := before[key]
		if proto.Equal(old, value) {
			after[key] = old
			continue
		}
		touched = append(touched, value)
		if old != nil {
			touched = append(touched, old)
		}
		after[key] = proto.CloneOf(value)
		txn.Put(key, value)
	}
	return touched
}

// Keys returns the keys of the last requested values of a service: of NAT, then of segments.
func (p *Proxy) Keys(id processor.ID) (keys []string) {
	t := p.translations[id]
	if t == nil {
		return nil
	}
	for _, ipv6 := range []bool{false, true} {
		if key := nat.Key(id, ipv6); t.values[key] != nil {
			keys = append(keys, key)
		}
	}
	return append(keys, slices.Sorted(slices.Values(t.carried.keys))...)
}

// NotCarried returns why segments do not carry addresses of a service.
func (p *Proxy) NotCarried(id processor.ID) []string {
	if t := p.translations[id]; t != nil {
		return t.carried.limits()
	}
	return nil
}

// ServiceNetwork returns the last requested value, or nil.
func (p *Proxy) ServiceNetwork() proto.Message {
	if p == nil {
		return nil
	}
	return p.shared[models.Key(&contiv_nat.ServiceNetwork{})]
}

// Owner returns the service that translates an address and port, or "".
func (p *Proxy) Owner(at netip.AddrPort, protocol processor.Protocol) string {
	if p == nil {
		return ""
	}
	for _, t := range p.translations {
		for _, value := range t.values {
			label, mappings := mappingsOf(value)
			if slices.Contains(mappings, mapping{at.Addr().String(), string(protocol), uint32(at.Port())}) {
				return label
			}
		}
	}
	return ""
}

// OwnerOnHost is Owner for an address of the host. It includes node ports that will be redirected
// once they have an endpoint.
func (p *Proxy) OwnerOnHost(at netip.AddrPort, protocol processor.Protocol) string {
	if owner := p.Owner(at, protocol); owner != "" || p == nil {
		return owner
	}
	if e := p.Entrances.NodePorts(at.Addr().Is6()); slices.Contains(e.Addresses, at.Addr()) {
		return p.Owner(netip.AddrPortFrom(e.To, at.Port()), protocol)
	}
	return ""
}

// Redirect returns the redirect of the host for an address and port, or nil, and its key.
func (p *Proxy) Redirect(at netip.AddrPort, protocol processor.Protocol) (key string, f *contiv_nat.HostRedirect_Frontend) {
	for _, t := range p.translations {
		for key, value := range t.values {
			r, is := value.(*contiv_nat.HostRedirect)
			if !is {
				continue
			}
			for _, f := range r.GetFrontends() {
				if f.GetAddress() == at.Addr().String() && f.GetPort() == uint32(at.Port()) && f.GetProtocol() == localnode.RedirectProtocols[protocol] {
					return key, f
				}
			}
		}
	}
	return "", nil
}

// hasPort reports whether a value translates one of the ports, on any address.
func hasPort(value proto.Message, ports map[podports.Port]bool) bool {
	_, mappings := mappingsOf(value)
	return slices.ContainsFunc(mappings, func(m mapping) bool { return ports[podports.Port{Number: m.port, Protocol: m.protocol}] })
}

type mapping struct {
	addr, protocol string
	port           uint32
}

func mappingsOf(value proto.Message) (label string, list []mapping) {
	switch v := value.(type) {
	case *vpp_nat.DNat44:
		for _, m := range v.GetStMappings() {
			list = append(list, mapping{m.GetExternalIp(), m.GetProtocol().String(), m.GetExternalPort()})
		}
		return v.GetLabel(), list
	case *contiv_nat.DNat66:
		for _, m := range v.GetStMappings() {
			list = append(list, mapping{m.GetExternalIp(), m.GetProtocol().String(), m.GetExternalPort()})
		}
		return v.GetLabel(), list
	case *contiv_nat.HostRedirect:
		for _, f := range v.GetFrontends() {
			list = append(list, mapping{f.GetAddress(), f.GetProtocol().String(), f.GetPort()})
		}
		return v.GetLabel(), list
	}
	return "", nil
}
