package service

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/kubeaddr"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Host ports of pods have precedence over external IPs of services, which any author of a service
// chooses. The pods of this node are those that are wired here, the pods of other nodes those that
// run according to Kubernetes.

// podPorts returns the host ports of all pods, except those of one pod of this node.
func (s *Service) podPorts(except podmanager.PodID) (list []processor.PodPort) {
	for _, local := range s.podsWithHostPorts() {
		if local.ID == except {
			continue
		}
		for _, ip := range s.hostPorts.Addresses.GetPodIPs(local.ID) {
			addresses := s.vswitchAddresses()
			if s.interconnect(ip.Is6()).to.IsValid() {
				addresses = append(addresses, s.hostAddresses()...)
			}
			for _, port := range local.HostPorts {
				list = append(list, portsOn(addresses, port, local.ID, ip)...)
			}
		}
	}
	nodes := s.self.nodes.GetAllNodes()
	for id, remote := range s.remotePods {
		n := nodes[remote.GetNodeName()]
		if n == nil || n.Name == s.self.name {
			continue
		}
		for _, port := range hostPortsOf(remote) {
			for _, text := range remote.GetIpAddresses() {
				if ip, err := kubeaddr.ParseAddr(text); err == nil {
					list = append(list, portsOn(addressesOf(n), port, id, ip)...)
				}
			}
		}
	}
	return list
}

func portsOn(addresses []netip.Addr, port podmanager.HostPort, id podmanager.PodID, ip netip.Addr) (list []processor.PodPort) {
	for _, addr := range ofVersion(addresses, ip.Is6()) {
		if port.IsOn(addr) {
			list = append(list, processor.PodPort{Addr: netip.AddrPortFrom(addr, port.Port), Protocol: processor.Protocol(port.Protocol), Pod: id.String(), To: netip.AddrPortFrom(ip, port.PodPort)})
		}
	}
	return list
}

// hostPortsOf returns the host ports of a pod in Kubernetes that runs. Processes of pods with host
// networking have their ports themselves.
func hostPortsOf(p *pod.Pod) (list []podmanager.HostPort) {
	if p.GetHostNetwork() || p.GetPhase() != pod.Pod_RUNNING {
		return nil
	}
	for _, container := range slices.Concat(p.GetContainer(), p.GetInitContainer()) {
		for _, port := range container.GetPort() {
			if n := port.GetHostPort(); n <= 0 || n > 65535 {
				continue
			}
			next := podmanager.HostPort{Port: uint16(port.GetHostPort()), Protocol: port.GetProtocol().String(), PodPort: uint16(port.GetContainerPort())}
			if text := port.GetHostIpAddress(); text != "" {
				addr, err := kubeaddr.ParseAddr(text)
				if err != nil {
					continue
				}
				next.Address = addr
			}
			list = append(list, next)
		}
	}
	return list
}

// changesPodPorts reports whether a change in Kubernetes concerns host ports of another node's pod.
func (s *Service) changesPodPorts(e *controller.KubeStateChange) bool {
	if e.Resource != dbresources.Pod {
		return false
	}
	of := func(value proto.Message) bool {
		p, _ := value.(*pod.Pod)
		return p.GetNodeName() != s.proxy.NodeName && len(hostPortsOf(p)) > 0
	}
	return of(e.PrevValue) || of(e.NewValue)
}

func (s *Service) podPortsChanged(e *controller.KubeStateChange) {
	if p, ok := e.PrevValue.(*pod.Pod); ok && p != nil {
		delete(s.remotePods, podmanager.IDOf(p))
	}
	if p, ok := e.NewValue.(*pod.Pod); ok && len(hostPortsOf(p)) > 0 {
		s.remotePods[podmanager.IDOf(p)] = p
	}
}

func (s *Service) notePodPorts(state controller.KubeState) {
	clear(s.remotePods)
	for _, value := range state[dbresources.Pod] {
		if p, ok := value.(*pod.Pod); ok && len(hostPortsOf(p)) > 0 {
			s.remotePods[podmanager.IDOf(p)] = p
		}
	}
}

// updatePodPorts keeps services from the host ports of all pods except one of this node.
func (s *Service) updatePodPorts(except podmanager.PodID, txn controller.UpdateOperations) error {
	if !s.translates() {
		return nil
	}
	_, _, _, err := s.updateAll(s.services.SetPodPorts(s.podPorts(except)), txn)
	return err
}
