package hostports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/reserved"
	"google.golang.org/protobuf/proto"
)

// OpenPorts are the addresses and ports at which a pod is reached.
type OpenPorts struct {
	Frontends []processor.Frontend                // of the vswitch
	Redirects []*contiv_nat.HostRedirect_Frontend // of the host
}

func (o *OpenPorts) add(f processor.Frontend) {
	if !slices.ContainsFunc(o.Frontends, func(other processor.Frontend) bool { return other.Addr == f.Addr && other.Protocol == f.Protocol }) {
		o.Frontends = append(o.Frontends, f)
	}
}

func (o *OpenPorts) redirect(f *contiv_nat.HostRedirect_Frontend) {
	if !slices.ContainsFunc(o.Redirects, func(other *contiv_nat.HostRedirect_Frontend) bool { return proto.Equal(other, f) }) {
		o.Redirects = append(o.Redirects, f)
	}
}

// Open returns the open ports of a pod. The error lists ports without an address, and ports of services
// or of the node.
func (h *HostPorts) Open(pod *podmanager.LocalPod) (open OpenPorts, err error) {
	return h.openPorts(context.Background(), pod, false)
}

// openPorts is Open for a pod that starts, if opening is set. Then the error also lists ports of the
// node's processes.
func (h *HostPorts) openPorts(ctx context.Context, pod *podmanager.LocalPod, opening bool) (open OpenPorts, err error) {
	var errs []error
	table := h.reservations.Table(ctx)
	for _, port := range pod.HostPorts {
		var possible []netip.Addr
		for _, ip := range h.node.Addresses.GetPodIPs(pod.ID) {
			for _, addr := range localnode.OfVersion(h.node.VSwitchAddresses(), ip.Is6()) {
				possible = append(possible, addr)
				if !port.IsOn(addr) {
					continue
				}
				if why := h.reservedFor(table, netip.AddrPortFrom(addr, port.Port), port, opening); why != "" {
					errs = append(errs, takenByNode(port, pod, why))
					continue
				}
				f := frontendAt(netip.AddrPortFrom(addr, port.Port), port, ip)
				if owner := h.proxy.Owner(f.Addr, f.Protocol); owner != "" {
					errs = append(errs, takenByService(port, pod, f.Addr, owner))
					continue
				}
				open.add(f)
			}
			i := h.node.Interconnect(ip.Is6())
			if !i.To.IsValid() {
				continue
			}
			for _, addr := range localnode.OfVersion(h.node.HostAddresses(), ip.Is6()) {
				possible = append(possible, addr)
				if !port.IsOn(addr) {
					continue
				}
				at, protocol := netip.AddrPortFrom(addr, port.Port), processor.Protocol(port.Protocol)
				if why := h.reservedFor(table, at, port, opening); why != "" {
					errs = append(errs, takenByNode(port, pod, why))
					continue
				}
				if owner := h.proxy.OwnerOnHost(at, protocol); owner != "" {
					errs = append(errs, takenByService(port, pod, at, owner))
					continue
				}
				open.redirect(i.Redirect(at, protocol, netip.AddrPortFrom(ip, port.PodPort)))
			}
		}
		if port.Address.IsValid() && !slices.ContainsFunc(possible, port.IsOn) {
			slices.SortFunc(possible, netip.Addr.Compare)
			errs = append(errs, fmt.Errorf("host port %v of pod %v: hostIP is none of the addresses %v of this node that lead to the pod; leave it out for all of them", port, pod.ID, slices.Compact(possible)))
		}
	}
	return open, errors.Join(errs...)
}

func frontendAt(at netip.AddrPort, port podmanager.HostPort, pod netip.Addr) processor.Frontend {
	to := []processor.Endpoint{{Addr: netip.AddrPortFrom(pod, port.PodPort), Local: true}}
	return processor.Frontend{Kind: processor.HostPort, Addr: at, Protocol: processor.Protocol(port.Protocol), KeepSource: true, Inside: to, Outside: to}
}

func takenByNode(port podmanager.HostPort, pod *podmanager.LocalPod, why string) error {
	return fmt.Errorf("host port %v of pod %v: %s; give the pod another hostPort, or none", port, pod.ID, why)
}

func takenByService(port podmanager.HostPort, pod *podmanager.LocalPod, at netip.AddrPort, owner string) error {
	return fmt.Errorf("host port %v of pod %v: %v is a port of service %s", port, pod.ID, at, owner)
}

func (h *HostPorts) inUse(pod *podmanager.LocalPod) error {
	var errs []error
	for _, other := range h.ports.Local() {
		if other.ID == pod.ID {
			continue
		}
		for _, port := range pod.HostPorts {
			if i := slices.IndexFunc(other.HostPorts, port.Overlaps); i >= 0 {
				errs = append(errs, fmt.Errorf("host port %v of pod %v is in use on this node: pod %v has %v", port, pod.ID, other.ID, other.HostPorts[i]))
			}
		}
	}
	return errors.Join(errs...)
}

// reservedFor returns the owner of a port that the node needs, or "". Opening means that the port is
// not open yet, so that a process of the node may own it.
func (h *HostPorts) reservedFor(t *reserved.Table, at netip.AddrPort, port podmanager.HostPort, opening bool) string {
	if entry, is := t.Frontend(at, port.Protocol, ""); is {
		return entry.String()
	}
	if opening && t.InUse(at, port.Protocol) {
		return fmt.Sprintf("a process of node %s has it", cmp.Or(h.node.Name, "this"))
	}
	return ""
}
