package ipnet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/guard"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/models"
)

type podNetwork struct {
	config    values
	iface     podmanager.PodInterface
	routes    []podmanager.Route
	vpp       string // logical names
	linux     string
	loopback  string
	container string
	custom    []customIf
	guards    []*guard.SourceGuard // of the main interface first; empty if unsupported
	refused   []string             // rejected sources with reasons
}

func (w *podNetwork) keys() []string { return slices.Sorted(maps.Keys(w.config)) }

// podNetwork computes the network of a pod with addresses.
//
//	pod       lo, eth0 podIP/32; ARP of the gateway, link route to it, default route
//	vswitch   vpp-tap-<cid> (afpacketveth2-<cid>), borrows the gateway's address; ARP of and route to the pod
//
// Everything except the interfaces exists once per IP version. custom.go adds further interfaces.
func (n *IPNet) podNetwork(node *thisNode, pod *podmanager.LocalPod) (*podNetwork, error) {
	var annotations map[string]string
	if p, known := n.pods.PodOf(pod); known {
		annotations = p.Annotations
	}
	return n.podNetworkWith(node, pod, annotations)
}

func (n *IPNet) podNetworkWith(node *thisNode, pod *podmanager.LocalPod, annotations map[string]string) (*podNetwork, error) {
	ips := n.ipam.GetPodIPs(pod.ID)
	if len(ips) == 0 {
		return nil, fmt.Errorf("pod %v has no IP address", pod.ID)
	}
	inPod, inVPP := podMACs(pod.ContainerID, "")
	attachment := n.podAttachment(pod.ContainerID)
	w := &podNetwork{
		config: make(values), container: pod.ContainerID,
		vpp: attachment.vpp, linux: attachment.linux, loopback: podLoopbackName(pod.ContainerID),
		iface:  podmanager.PodInterface{HostName: pod.IfName, MAC: inPod, MTU: node.podMTU},
		custom: n.customIfs(pod),
	}
	for _, ip := range ips {
		gateway := ofVersion(node.podGateways(), ip.Is6()).Addr()
		if !gateway.IsValid() {
			continue
		}
		w.iface.IPs, w.iface.Gateways = append(w.iface.IPs, single(ip)), append(w.iface.Gateways, gateway)
		w.routes = append(w.routes, podmanager.Route{Network: anyNetwork(gateway), Gateway: gateway})
		w.config.add(
			&linux_l3.ARPEntry{Interface: w.linux, IpAddress: gateway.String(), HwAddress: inVPP},
			&linux_l3.Route{OutgoingInterface: w.linux, Scope: linux_l3.Route_LINK, DstNetwork: single(gateway).String()},
			&linux_l3.Route{OutgoingInterface: w.linux, Scope: linux_l3.Route_GLOBAL, DstNetwork: anyNetwork(gateway).String(), GwAddr: gateway.String()},
			&vpp_l3.ARPEntry{Interface: w.vpp, IpAddress: ip.String(), PhysAddress: inPod, Static: true},
			&vpp_l3.Route{VrfId: node.podVRF, DstNetwork: single(ip).String(), OutgoingInterface: w.vpp},
		)
	}
	loopback := PodLoopback(pod)
	serviceAddrs := n.addServiceAddrs(pod.ID, loopback)
	w.config.add(loopback)
	n.attach(w.config, attachment,
		&vpp_interfaces.Interface{
			Enabled: true, Vrf: node.podVRF, PhysAddress: inVPP, Mtu: node.podMTU, RxModes: n.rxModes(),
			Unnumbered: &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: podGatewayName},
		},
		&linux_interfaces.Interface{
			Namespace: namespaceOf(pod), Enabled: true, HostIfName: pod.IfName, IpAddresses: prefixStrings(w.iface.IPs),
			PhysAddress: inPod, Mtu: node.podMTU,
		})
	n.addCustom(w, node, pod)
	var more []netip.Addr
	more, w.refused = n.moreSources(node, annotations[SourcesAnnotation])
	n.guard(w, attachment, append(more, serviceAddrs...))
	return w, nil
}

// guard restricts the sources of a pod to its addresses and more. The interfaces depend on the
// guard.
func (n *IPNet) guard(w *podNetwork, main attachment, more []netip.Addr) {
	if !n.caps.SourceGuards {
		return
	}
	var sources []string
	for _, ip := range w.iface.IPs {
		sources = append(sources, ip.Addr().String())
	}
	var custom []netip.Addr
	for _, i := range w.custom {
		if i.wired() {
			custom = append(custom, i.ips...)
		}
	}
	for _, addr := range slices.Concat(custom, more) {
		sources = append(sources, addr.String())
	}
	add := func(a attachment, mac string) {
		g := &guard.SourceGuard{Interface: a.vpp, HostIfName: a.hostDevice, MacAddress: mac, IpAddresses: sources}
		if n.caps.ConnectionLimits {
			g.MaxConnections = n.config.Interfaces().PodConnectionLimit
			if g.MaxConnections != 0 && slices.ContainsFunc(w.custom, func(i customIf) bool { return i.wired() }) {
				g.CountedWith = main.vpp
			}
		}
		w.guards = append(w.guards, g)
		w.config.add(g)
		w.config[models.VPPInterfaceKey(a.vpp)].(*vpp_interfaces.Interface).SourceGuarded = true
	}
	add(main, w.iface.MAC)
	for _, i := range w.custom {
		if i.wired() {
			add(i.attachment, i.mac)
		}
	}
}

// PodLoopback returns the only value of a pod's network without an effect on the node's side, where
// neither its existence nor its removal shows.
func PodLoopback(pod *podmanager.LocalPod) *linux_interfaces.Interface {
	return &linux_interfaces.Interface{
		Name: podLoopbackName(pod.ContainerID), Type: linux_interfaces.Interface_LOOPBACK, Namespace: namespaceOf(pod), Enabled: true,
		IpAddresses: []string{"127.0.0.1/8", "::1/128"},
	}
}

func namespaceOf(pod *podmanager.LocalPod) *linux_namespace.NetNamespace {
	return &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: pod.NetNS}
}

func (n *IPNet) addPod(node *thisNode, event *podmanager.AddPod, txn controller.UpdateOperations) (string, error) {
	pod, known := n.pods.LocalPod(event.Pod)
	if !known || pod.ContainerID != event.ContainerID {
		return "", fmt.Errorf("container %s of pod %v: %w", event.ContainerID, event.Pod, podmanager.ErrNotWired)
	}
	if err := n.checkNames(pod); err != nil {
		return "", err
	}
	w, err := n.podNetwork(node, pod)
	if err != nil {
		return "", err
	}
	n.warnOfSources(w, event.Pod)
	for key, value := range w.config {
		txn.Put(key, value)
	}
	event.Interfaces, event.Routes = []podmanager.PodInterface{w.iface}, w.routes
	if event.WasWired() {
		return "", nil
	}
	return fmt.Sprintf("wire pod %v with %s", pod.ID, strings.Join(prefixStrings(w.iface.IPs), ", ")), nil
}

func (n *IPNet) checkNames(pod *podmanager.LocalPod) error {
	for id, other := range n.pods.LocalPods() {
		if id != pod.ID && podLoopbackName(other.ContainerID) == podLoopbackName(pod.ContainerID) {
			return fmt.Errorf("container IDs %s of pod %v and %s of pod %v do not differ in their first %d characters: the runtime must use different IDs",
				pod.ContainerID, pod.ID, other.ContainerID, id, maxLogicalName-len(podLoopbackName("")))
		}
		if id != pod.ID && !n.useTAPs() && vethDevice(other.ContainerID) == vethDevice(pod.ContainerID) {
			return fmt.Errorf("container IDs %s of pod %v and %s of pod %v do not differ in their first %d characters, which name devices of the node: the runtime must use different IDs",
				pod.ContainerID, pod.ID, other.ContainerID, id, maxDeviceName)
		}
	}
	return nil
}

func (n *IPNet) deletePod(ctx context.Context, node *thisNode, event *podmanager.DeletePod, txn controller.UpdateOperations) (string, error) {
	pod, known := n.pods.LocalPod(event.Pod)
	if !known || pod.ContainerID != event.ContainerID {
		return "", nil
	}
	w, err := n.podNetwork(node, pod)
	if err != nil {
		return "", err
	}
	for key := range w.config {
		txn.Delete(key)
	}
	n.setCustomProblems(pod.ID, nil)
	if pod.Custom.EndpointIf != "" {
		err = n.publishPodAddresses(ctx, pod.ID)
	}
	return fmt.Sprintf("unwire pod %v", pod.ID), err
}

func (n *IPNet) checkPod(ctx context.Context, node *thisNode, event *podmanager.CheckPod) error {
	pod, known := n.pods.LocalPod(event.Pod)
	if !known || pod.ContainerID != event.ContainerID {
		return fmt.Errorf("container %s of pod %v: %w", event.ContainerID, event.Pod, podmanager.ErrNotWired)
	}
	w, err := n.podNetwork(node, pod)
	if err != nil {
		return err
	}
	event.Interfaces, event.Routes = []podmanager.PodInterface{w.iface}, w.routes
	differences, err := n.verifier.Verify(ctx, w.keys()...)
	if err != nil {
		return fmt.Errorf("read back the network of pod %v: %w", pod.ID, err)
	}
	if len(differences) == 0 {
		return nil
	}
	var texts []string
	for _, d := range differences {
		state := "differs from the configured one"
		if d.Have == nil {
			state = "is missing"
		}
		texts = append(texts, fmt.Sprintf("%s %s (%v)", d.Key, state, d.State))
	}
	return fmt.Errorf("network of pod %v is not as configured: %s", pod.ID, strings.Join(texts, "; "))
}
