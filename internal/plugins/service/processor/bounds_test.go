package processor_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

func wide(name string, addresses, ports int) *service.Service {
	var n byte
	for _, c := range []byte(name) {
		n = n*31 + c
	}
	svc := &service.Service{Name: name, Namespace: "default", ClusterIp: fmt.Sprintf("10.96.%d.1", n)}
	for i := range addresses {
		svc.ExternalIps = append(svc.ExternalIps, netip.AddrFrom4([4]byte{198, n, byte(i >> 8), byte(i)}).String())
	}
	for i := range ports {
		svc.Port = append(svc.Port, &service.Service_ServicePort{Name: fmt.Sprint("p", i), Protocol: "TCP", Port: int32(i + 1)})
	}
	return svc
}

func sliceOf(svc *service.Service, endpoints int) *endpointslice.EndpointSlice {
	s := &endpointslice.EndpointSlice{Name: svc.GetName(), Namespace: "default", Service: svc.GetName(), AddressType: endpointslice.EndpointSlice_IPv4}
	for _, p := range svc.GetPort() {
		s.Ports = append(s.Ports, &endpointslice.EndpointSlice_Port{Name: p.GetName(), Protocol: "TCP", Port: p.GetPort()})
	}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, ready(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String(), "node1"))
	}
	return s
}

// A service beyond its limits fails alone and reports its size.
func TestServicesHaveBounds(t *testing.T) {
	for name, test := range map[string]struct {
		addresses, ports, endpoints int
		want                        string
	}{
		"the most frontends":           {63, 64, 1, ""},
		"one address too many":         {64, 64, 1, "come to 4160 frontends, and a service may have 4096"},
		"300 addresses and 2000 ports": {299, 2000, 1, "come to 600000 frontends"},
		"more than can be counted up":  {60_000, 65_535, 1, "come to 3932165535 frontends"},
		"the most targets":             {0, 131, 1000, ""},
		"too many targets":             {0, 132, 1000, "its 132 frontends, each with all endpoints and source ranges, come to 132000 targets, and a service may have 131072"},
	} {
		t.Run(name, func(t *testing.T) {
			p := processor.New()
			other := wide("other", 1, 1)
			svc := wide("svc", test.addresses, test.ports)
			if test.addresses > 256 {
				svc.ExternalIps = append(svc.ExternalIps, other.GetExternalIps()...)
				svc.ExternalIps = svc.ExternalIps[:test.addresses]
			}
			id, otherID := processor.ID{Namespace: "default", Name: "svc"}, processor.ID{Namespace: "default", Name: "other"}
			p.SetService(svc)
			p.SetService(other)
			p.SetSlice(nil, sliceOf(svc, test.endpoints))
			got := p.Explainer().TooLarge(id)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("too large: %q, want %q", got, test.want)
			}
			if s := p.Service(id, false); (s != nil) != (test.want == "") {
				t.Errorf("translated: %v", s != nil)
			}
			if s := p.Service(otherID, false); s == nil || len(s.Frontends) != 2 {
				t.Errorf("the other service: %v", s)
			}
			if changed := p.SetService(wide("svc", 1, 1)); !slices.Contains(changed, id) || p.Explainer().TooLarge(id) != "" || p.Service(id, false) == nil {
				t.Errorf("without the excess: %q", p.Explainer().TooLarge(id))
			}
		})
	}
}

// The refused services do not depend on the order of events, and following the returned services
// yields the result of a new processor.
func TestNodesHaveBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	names := make([]string, 24)
	for i := range names {
		names[i] = fmt.Sprint("svc", i)
	}
	p := processor.New()
	services, lists := map[string]*service.Service{}, map[string]*endpointslice.EndpointSlice{}
	rendered := map[processor.ID]bool{}
	refused := 0
	for _, name := range names {
		services[name] = wide(name, 30+random.IntN(34), 30+random.IntN(35))
		p.SetService(services[name])
	}
	for _, id := range p.IDs() {
		rendered[id] = p.Service(id, false) != nil
	}
	for step := range 20 {
		name := names[random.IntN(len(names))]
		var changed []processor.ID
		switch random.IntN(4) {
		case 0:
			changed = p.RemoveService("default", name)
			delete(services, name)
		case 1:
			svc := services[name]
			if svc == nil {
				continue
			}
			next := sliceOf(svc, random.IntN(60))
			changed = p.SetSlice(lists[name], next)
			lists[name] = next
		default:
			services[name] = wide(name, 30+random.IntN(34), 30+random.IntN(35))
			changed = p.SetService(services[name])
		}
		for _, id := range changed {
			rendered[id] = p.Service(id, false) != nil
		}
		fresh := processor.New()
		for _, svc := range services {
			fresh.SetService(svc)
		}
		for _, list := range lists {
			fresh.SetSlice(nil, list)
		}
		if got, want := p.Explainer().AllTooLarge(), fresh.Explainer().AllTooLarge(); !slices.Equal(got, want) {
			t.Fatalf("step %d: refused are %v, want %v", step, got, want)
		}
		refused += len(fresh.Explainer().AllTooLarge())
		frontends := 0
		for name := range services {
			id := processor.ID{Namespace: "default", Name: name}
			s := fresh.Service(id, false)
			if s != nil {
				frontends += len(s.Frontends)
			}
			if rendered[id] != (s != nil) || step%10 == 0 && !reflect.DeepEqual(p.Service(id, false), s) {
				t.Fatalf("step %d: %s is rendered: %v, want %v", step, name, rendered[id], s != nil)
			}
		}
		if frontends > processor.MaxNodeFrontends {
			t.Fatalf("step %d: %d frontends", step, frontends)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
