// Package podports knows the host ports that pods request:
//
//	wired pods of this node ───────┐
//	Pods of other nodes in etcd ───┴─> Ports ──> proxy:     all have precedence over external IPs
//	                                         ──> hostports: opens ports of local pods
//
// Any author of a service chooses external IPs, so that a service could divert the port of a pod.
package podports

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// Pods provides the pods of this node.
type Pods interface {
	LocalPods() podmanager.LocalPods
	LocalPod(podmanager.PodID) (*podmanager.LocalPod, bool)
}

// Ports lists the host ports of pods: of pods that are wired on this node, and of pods that run on
// other nodes according to Kubernetes.
type Ports struct {
	node   *localnode.Node
	pods   Pods                          // nil if the vswitch opens no host ports
	remote map[podmanager.PodID]*pod.Pod // from Kubernetes, on any node, with host ports
}

// New returns the ports of a node. Pods may be nil.
func New(node *localnode.Node, pods Pods) *Ports {
	return &Ports{node: node, pods: pods, remote: map[podmanager.PodID]*pod.Pod{}}
}

// Local returns the pods of this node with host ports, sorted.
func (p *Ports) Local() (pods []*podmanager.LocalPod) {
	if p.pods == nil {
		return nil
	}
	for _, local := range p.pods.LocalPods() {
		if len(local.HostPorts) > 0 {
			pods = append(pods, local)
		}
	}
	slices.SortFunc(pods, func(a, b *podmanager.LocalPod) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return pods
}

// LocalPod returns nil unless the pod has host ports and the container is its current one.
func (p *Ports) LocalPod(id podmanager.PodID, container string) *podmanager.LocalPod {
	local, known := p.pods.LocalPod(id)
	if !known || local.ContainerID != container || len(local.HostPorts) == 0 {
		return nil
	}
	return local
}

// Port is a port that pods request, on any address.
type Port struct {
	Number   uint32
	Protocol string
}

// Requested returns the ports that pods of this node request.
func (p *Ports) Requested() map[Port]bool {
	ports := map[Port]bool{}
	for _, local := range p.Local() {
		for _, port := range local.HostPorts {
			ports[Port{uint32(port.Port), port.Protocol}] = true
		}
	}
	return ports
}

// All returns the host ports of all pods except one of this node.
func (p *Ports) All(except podmanager.PodID) (list []processor.PodPort) {
	for _, local := range p.Local() {
		if local.ID == except {
			continue
		}
		for _, ip := range p.node.Addresses.GetPodIPs(local.ID) {
			addresses := p.node.VSwitchAddresses()
			if p.node.Interconnect(ip.Is6()).To.IsValid() {
				addresses = append(addresses, p.node.HostAddresses()...)
			}
			for _, port := range local.HostPorts {
				list = append(list, onAddresses(addresses, port, local.ID, ip)...)
			}
		}
	}
	nodes := p.node.Nodes.GetAllNodes()
	for id, remote := range p.remote {
		n := nodes[remote.GetNodeName()]
		if n == nil || n.Name == p.node.Name {
			continue
		}
		for _, port := range hostPortsOf(remote) {
			for _, text := range remote.GetIpAddresses() {
				if ip, err := kubeaddr.ParseAddr(text); err == nil {
					list = append(list, onAddresses(localnode.AddressesOf(n), port, id, ip)...)
				}
			}
		}
	}
	return list
}

func onAddresses(addresses []netip.Addr, port podmanager.HostPort, id podmanager.PodID, ip netip.Addr) (list []processor.PodPort) {
	for _, addr := range localnode.OfVersion(addresses, ip.Is6()) {
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

// ChangedBy reports whether a change in Kubernetes concerns host ports of another node's pod.
func (p *Ports) ChangedBy(e *controller.KubeStateChange) bool {
	if e.Resource != kubestate.Pod {
		return false
	}
	concerned := func(value proto.Message) bool {
		changed, _ := value.(*pod.Pod)
		return changed.GetNodeName() != p.node.Name && len(hostPortsOf(changed)) > 0
	}
	return concerned(e.PrevValue) || concerned(e.NewValue)
}

// Record records a change of a pod in Kubernetes.
func (p *Ports) Record(e *controller.KubeStateChange) {
	if prev, ok := e.PrevValue.(*pod.Pod); ok && prev != nil {
		delete(p.remote, podmanager.IDOf(prev))
	}
	p.add(e.NewValue)
}

// Reset records all pods in Kubernetes.
func (p *Ports) Reset(state controller.KubeState) {
	clear(p.remote)
	for _, value := range state[kubestate.Pod] {
		p.add(value)
	}
}

func (p *Ports) add(value proto.Message) {
	if next, ok := value.(*pod.Pod); ok && len(hostPortsOf(next)) > 0 {
		p.remote[podmanager.IDOf(next)] = next
	}
}
