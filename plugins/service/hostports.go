package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/renderer/nat"
	"google.golang.org/protobuf/proto"
)

// HostPorts makes the vswitch translate host ports of local pods, independent of the service proxy.
//
//	AddPod ──> LocalPod.HostPorts ─┬─> frontends on addresses of the vswitch ──> dnat44, dnat66/hostPort/<namespace>/<pod>
//	                               └─> on addresses that only the host has   ──> host-redirect/hostPort/<namespace>/<pod>
type HostPorts struct {
	NodeName  string
	Nodes     Nodes
	Addresses Addresses
	Pods      Pods
	Verifier  Verifier
}

// Pods provides the pods of this node.
type Pods interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
}

// Verifier compares the southbound state with the requested values.
type Verifier interface {
	Verify(ctx context.Context, keys ...string) ([]kvscheduler.Difference, error)
}

// The capital letter excludes conflicts with namespaces.
const hostPortPrefix = "hostPort/"

// maxLabel is the kernel's limit in bytes. Labels of services are shorter.
const maxLabel = 127

// A hash replaces the end of a long name.
func hostPortID(pod podmanager.PodID) processor.ID {
	id := processor.ID{Namespace: hostPortPrefix + pod.Namespace, Name: pod.Name}
	if long := len(id.String()) - maxLabel; long > 0 {
		sum := sha256.Sum256([]byte(pod.Name))
		hash := fmt.Sprintf("~%x", sum[:6])
		id.Name = pod.Name[:max(len(pod.Name)-long-len(hash), 0)] + hash
	}
	return id
}

func (s *Service) forPod(event controller.Event) bool {
	if s.hostPorts == nil {
		return false
	}
	switch event.(type) {
	case *podmanager.AddPod, *podmanager.DeletePod, *podmanager.CheckPod:
		return true
	}
	return false
}

func (s *Service) podsWithHostPorts() (pods []*podmanager.LocalPod) {
	if s.hostPorts == nil {
		return nil
	}
	for _, p := range s.hostPorts.Pods.LocalPods() {
		if len(p.HostPorts) > 0 {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *podmanager.LocalPod) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return pods
}

// vswitchAddresses returns the node's addresses that the vswitch owns, sorted.
func (s *Service) vswitchAddresses() []netip.Addr {
	list := s.openAddresses()
	for _, ipv6 := range []bool{false, true} {
		if p := s.network.GetNodeIPOf(ipv6); p.IsValid() {
			list = append(list, p.Addr())
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func (s *Service) updatePod(ctx context.Context, event controller.Event, txn controller.UpdateOperations) (string, error) {
	switch e := event.(type) {
	case *podmanager.AddPod:
		if pod := s.podOf(e.Pod, e.ContainerID); pod != nil {
			if err := s.updatePodPorts(podmanager.PodID{}, txn); err != nil {
				return "", err
			}
			return s.openHostPorts(ctx, pod, txn)
		}
	case *podmanager.DeletePod:
		if pod := s.podOf(e.Pod, e.ContainerID); pod != nil {
			return s.closeHostPorts(pod, txn), s.updatePodPorts(pod.ID, txn)
		}
	case *podmanager.CheckPod:
		if pod := s.podOf(e.Pod, e.ContainerID); pod != nil {
			return "", s.checkHostPorts(ctx, pod)
		}
	}
	return "", nil
}

// podOf returns nil unless the pod has host ports and the container is its current one.
func (s *Service) podOf(id podmanager.PodID, container string) *podmanager.LocalPod {
	pod, known := s.hostPorts.Pods.LocalPod(id)
	if !known || pod.ContainerID != container || len(pod.HostPorts) == 0 {
		return nil
	}
	return pod
}

// openHostPorts returns an error unless all ports of the pod can be opened.
func (s *Service) openHostPorts(ctx context.Context, pod *podmanager.LocalPod, txn controller.UpdateOperations) (string, error) {
	open, err := s.portsOfPod(ctx, pod, true)
	if err := errors.Join(s.inUse(pod), err); err != nil {
		return "", err
	}
	for key, value := range s.sharedByPods() {
		txn.Put(key, value)
	}
	for key, value := range s.renderPod(pod, open) {
		if value != nil {
			txn.Put(key, value)
		}
	}
	return fmt.Sprintf("open host ports %s of pod %v", listPorts(pod.HostPorts), pod.ID), nil
}

// closeHostPorts removes the shared values with the last pod.
func (s *Service) closeHostPorts(pod *podmanager.LocalPod, txn controller.UpdateOperations) string {
	delete(s.lostPorts, pod.ID)
	for key := range s.renderPod(pod, openPorts{}) {
		txn.Delete(key)
	}
	if len(s.podsWithHostPorts()) == 1 && !s.translates() {
		for key := range s.sharedByPods() {
			if key != globalKey || !s.sourceNAT {
				txn.Delete(key)
			}
		}
	}
	return fmt.Sprintf("close host ports %s of pod %v", listPorts(pod.HostPorts), pod.ID)
}

func (s *Service) checkHostPorts(ctx context.Context, pod *podmanager.LocalPod) error {
	open, _ := s.portsOf(pod) // ports that can no longer be opened are only logged
	var keys []string
	for key, value := range s.renderPod(pod, open) {
		if value != nil {
			keys = append(keys, key)
		}
	}
	differences, err := s.hostPorts.Verifier.Verify(ctx, keys...)
	if err != nil {
		return fmt.Errorf("read back the host ports of pod %v: %w", pod.ID, err)
	}
	var errs []error
	for _, d := range differences {
		errs = append(errs, fmt.Errorf("host ports of pod %v are not as configured: %s (%v)", pod.ID, d.Key, d.State))
	}
	return errors.Join(errs...)
}

func (s *Service) resyncHostPorts(ctx context.Context, txn controller.ResyncOperations) {
	clear(s.lostPorts)
	pods := s.podsWithHostPorts()
	if len(pods) == 0 {
		return
	}
	for key, value := range s.sharedByPods() {
		if txn.Get(key) == nil {
			txn.Put(key, value)
		}
	}
	s.putHostPorts(ctx, pods, txn, nil)
}

func (s *Service) refreshHostPorts(ctx context.Context, txn controller.UpdateOperations) {
	s.putHostPorts(ctx, s.podsWithHostPorts(), txn, txn.Delete)
}

func (s *Service) putHostPorts(ctx context.Context, pods []*podmanager.LocalPod, txn controller.ResyncOperations, remove func(key string)) {
	for _, pod := range pods {
		open, err := s.portsOf(pod)
		delete(s.lostPorts, pod.ID)
		if err != nil {
			controller.Logger(ctx, s.log).Warn("Not all host ports of a pod are open", "pod", pod.ID, "error", err)
			s.lostPorts[pod.ID] = err.Error()
		}
		for key, value := range s.renderPod(pod, open) {
			switch {
			case value != nil:
				txn.Put(key, value)
			case remove != nil:
				remove(key)
			}
		}
	}
}

type openPorts struct {
	frontends []processor.Frontend                // of the vswitch
	redirects []*contiv_nat.HostRedirect_Frontend // of the host
}

func (o *openPorts) add(f processor.Frontend) {
	if !slices.ContainsFunc(o.frontends, func(other processor.Frontend) bool { return other.Addr == f.Addr && other.Protocol == f.Protocol }) {
		o.frontends = append(o.frontends, f)
	}
}

func (o *openPorts) redirect(f *contiv_nat.HostRedirect_Frontend) {
	if !slices.ContainsFunc(o.redirects, func(other *contiv_nat.HostRedirect_Frontend) bool { return proto.Equal(other, f) }) {
		o.redirects = append(o.redirects, f)
	}
}

// The error lists ports without an address, and ports of services or of the node.
func (s *Service) portsOf(pod *podmanager.LocalPod) (open openPorts, err error) {
	return s.portsOfPod(context.Background(), pod, false)
}

// If opening is set, the error also lists ports of the node's processes.
func (s *Service) portsOfPod(ctx context.Context, pod *podmanager.LocalPod, opening bool) (open openPorts, err error) {
	var errs []error
	table := s.table(ctx)
	for _, port := range pod.HostPorts {
		var possible []netip.Addr
		for _, ip := range s.hostPorts.Addresses.GetPodIPs(pod.ID) {
			for _, addr := range ofVersion(s.vswitchAddresses(), ip.Is6()) {
				possible = append(possible, addr)
				if !port.IsOn(addr) {
					continue
				}
				if why := s.needed(table, netip.AddrPortFrom(addr, port.Port), port, opening); why != "" {
					errs = append(errs, ofNode(port, pod, why))
					continue
				}
				f := hostPortAt(netip.AddrPortFrom(addr, port.Port), port, ip)
				if owner := s.serviceWith(f.Addr, f.Protocol); owner != "" {
					errs = append(errs, ofService(port, pod, f.Addr, owner))
					continue
				}
				open.add(f)
			}
			i := s.interconnect(ip.Is6())
			if !i.to.IsValid() {
				continue
			}
			for _, addr := range ofVersion(s.hostAddresses(), ip.Is6()) {
				possible = append(possible, addr)
				if !port.IsOn(addr) {
					continue
				}
				at, protocol := netip.AddrPortFrom(addr, port.Port), processor.Protocol(port.Protocol)
				if why := s.needed(table, at, port, opening); why != "" {
					errs = append(errs, ofNode(port, pod, why))
					continue
				}
				if owner := s.serviceOfHost(at, protocol); owner != "" {
					errs = append(errs, ofService(port, pod, at, owner))
					continue
				}
				open.redirect(i.redirectTo(at, protocol, netip.AddrPortFrom(ip, port.PodPort)))
			}
		}
		if port.Address.IsValid() && !slices.ContainsFunc(possible, port.IsOn) {
			slices.SortFunc(possible, netip.Addr.Compare)
			errs = append(errs, fmt.Errorf("host port %v of pod %v: hostIP is none of the addresses %v of this node that lead to the pod; leave it out for all of them", port, pod.ID, slices.Compact(possible)))
		}
	}
	return open, errors.Join(errs...)
}

func hostPortAt(at netip.AddrPort, port podmanager.HostPort, pod netip.Addr) processor.Frontend {
	to := []processor.Endpoint{{Addr: netip.AddrPortFrom(pod, port.PodPort), Local: true}}
	return processor.Frontend{Kind: processor.HostPort, Addr: at, Protocol: processor.Protocol(port.Protocol), KeepSource: true, Inside: to, Outside: to}
}

func ofNode(port podmanager.HostPort, pod *podmanager.LocalPod, why string) error {
	return fmt.Errorf("host port %v of pod %v: %s; give the pod another hostPort, or none", port, pod.ID, why)
}

func ofService(port podmanager.HostPort, pod *podmanager.LocalPod, at netip.AddrPort, owner string) error {
	return fmt.Errorf("host port %v of pod %v: %v is a port of service %s", port, pod.ID, at, owner)
}

func (s *Service) inUse(pod *podmanager.LocalPod) error {
	var errs []error
	for _, other := range s.podsWithHostPorts() {
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

// renderPod returns a value per IP version and one for the host, by key. A value without ports is
// nil.
func (s *Service) renderPod(pod *podmanager.LocalPod, open openPorts) map[string]proto.Message {
	values := map[string]proto.Message{}
	if s.ownStack() {
		id := hostPortID(pod.ID)
		key := hostRedirectKey(id)
		if values[key] = nil; len(open.redirects) > 0 {
			values[key] = &contiv_nat.HostRedirect{Label: id.String(), Frontends: open.redirects}
		}
	}
	for _, ip := range s.hostPorts.Addresses.GetPodIPs(pod.ID) {
		ipv6 := ip.Is6()
		svc := &processor.Service{ID: hostPortID(pod.ID)}
		for _, f := range open.frontends {
			if f.Addr.Addr().Is6() == ipv6 {
				svc.Frontends = append(svc.Frontends, f)
			}
		}
		key := nat.Key(svc.ID, ipv6)
		if values[key] = nil; len(svc.Frontends) > 0 {
			values[key] = nat.Render(svc, ipv6, s.natOptions())
		}
	}
	return values
}

func (s *Service) serviceWith(at netip.AddrPort, protocol processor.Protocol) string {
	for _, value := range s.rendered {
		label, mappings := mappingsOf(value)
		if slices.Contains(mappings, mapping{at.Addr().String(), string(protocol), uint32(at.Port())}) {
			return label
		}
	}
	return ""
}

// serviceOfHost is serviceWith for an address of the host. It includes node ports that will be
// redirected once they have an endpoint.
func (s *Service) serviceOfHost(at netip.AddrPort, protocol processor.Protocol) string {
	if owner := s.serviceWith(at, protocol); owner != "" || s.proxy == nil {
		return owner
	}
	if e := s.hostEntrance(at.Addr().Is6()); slices.Contains(e.addresses, at.Addr()) {
		return s.serviceWith(netip.AddrPortFrom(e.to, at.Port()), protocol)
	}
	return ""
}

func (s *Service) hasHostPort(value proto.Message) bool {
	_, mappings := mappingsOf(value)
	return slices.ContainsFunc(s.podsWithHostPorts(), func(pod *podmanager.LocalPod) bool {
		return slices.ContainsFunc(pod.HostPorts, func(port podmanager.HostPort) bool {
			return slices.ContainsFunc(mappings, func(m mapping) bool { return m.port == uint32(port.Port) && m.protocol == port.Protocol })
		})
	})
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

var globalKey = models.Key(&vpp_nat.Nat44Global{})

func (s *Service) sharedByPods() map[string]proto.Message {
	values := map[string]proto.Message{}
	if loopback := s.self.loopback(false); loopback.IsValid() {
		global, pool := s.globalNAT(), hairpinPool(loopback)
		values[models.Key(global)], values[models.Key(pool)] = global, pool
	}
	if !s.caps.HostStackShared && !s.ownStack() {
		return values // the interfaces configure the translation
	}
	network := s.serviceNetwork()
	key := models.Key(network)
	if full := s.rendered[key]; full != nil { // the value for services contains more
		values[key] = full
	} else if len(network.GetInside()) > 0 {
		values[key] = network
	}
	return values
}

func listPorts(ports []podmanager.HostPort) string {
	var texts []string
	for _, p := range ports {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
