package ipnet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"google.golang.org/protobuf/proto"
)

// Custom interfaces of a pod follow its main one and are independent of each other:
//
//	annotations ──> podmanager ──PodCustomIfUpdate──> addresses ──> difference of the networks
//	                                                                └──> policies, VppNode.pod_addresses
//
//	pod       net1 IP/32; ARP of the gateway. Routes lead through eth0
//	vswitch   vpp-tap-net1-<cid>, borrows the gateway's address; ARP of and route to IP
//
// Each interface of the pod may send from all of its addresses, because replies of servers on net1
// leave through eth0.

type customIf struct {
	podmanager.CustomIf
	attachment
	mac     string
	ips     []netip.Addr
	problem string
}

// customAttachment returns a TAP for the type "tap" and otherwise a VETH pair. Without TAPs, all are
// VETH pairs. A vswitch that shares the host's stack implements both types alike.
func (n *IPNet) customAttachment(containerID string, i podmanager.CustomIf) attachment {
	name := i.Name + "-" + containerID
	if n.useTAPs() && (i.Type == "tap" || n.caps.HostStackShared) {
		return attachment{vpp: trim("vpp-tap-" + name), linux: trim("linux-tap-" + name)}
	}
	sum := sha256.Sum256([]byte(containerID + "/" + i.Name))
	return attachment{
		vpp: trim("afpacketveth2-" + name), linux: trim("veth1-" + name),
		hostEnd: trim("veth2-" + name), hostDevice: ("c" + hex.EncodeToString(sum[:]))[:maxDeviceName],
	}
}

func (n *IPNet) customIfs(pod *podmanager.LocalPod) (list []customIf) {
	n.mu.RLock()
	problems := n.customProblems[pod.ID]
	n.mu.RUnlock()
	for _, declared := range pod.Custom.Interfaces {
		i := customIf{CustomIf: declared, attachment: n.customAttachment(pod.ContainerID, declared), problem: problems[declared.Name]}
		if i.mac, _ = podMACs(pod.ContainerID, i.Name); i.Network != podmanager.StubNetwork {
			i.ips = n.ipam.GetPodCustomIfIPs(pod.ID, i.Name, i.Network)
		}
		list = append(list, i)
	}
	return list
}

func (i *customIf) wired() bool {
	return i.problem == "" && (len(i.ips) > 0 || i.Network == podmanager.StubNetwork)
}

// GetPodCustomIfs returns the vswitch's logical names and the addresses of a wired pod's custom
// interfaces.
func (n *IPNet) GetPodCustomIfs(id podmanager.PodID) (interfaces []string, addrs []netip.Addr) {
	pod, wired := n.pods.LocalPod(id)
	if !wired {
		return nil, nil
	}
	for _, i := range n.customIfs(pod) {
		if i.wired() {
			interfaces, addrs = append(interfaces, i.vpp), append(addrs, i.ips...)
		}
	}
	return interfaces, addrs
}

func (n *IPNet) addCustom(w *podNetwork, node *thisNode, pod *podmanager.LocalPod) {
	for _, i := range w.custom {
		if !i.wired() {
			continue
		}
		_, inVPP := podMACs(pod.ContainerID, i.Name)
		onVPP := &vpp_interfaces.Interface{Enabled: true, PhysAddress: inVPP, Mtu: node.podMTU, RxModes: n.rxModes()}
		if len(i.ips) > 0 {
			onVPP.Vrf, onVPP.Unnumbered = node.podVRF, &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: podGatewayName}
		}
		inPod := &linux_interfaces.Interface{Namespace: namespaceOf(pod), Enabled: true, HostIfName: i.Name, PhysAddress: i.mac, Mtu: node.podMTU}
		for _, ip := range i.ips {
			gateway := ofVersion(node.podGateways(), ip.Is6()).Addr()
			if !gateway.IsValid() {
				continue
			}
			inPod.IpAddresses = append(inPod.IpAddresses, single(ip).String())
			w.config.add(
				&linux_l3.ARPEntry{Interface: i.linux, IpAddress: gateway.String(), HwAddress: inVPP},
				&vpp_l3.ARPEntry{Interface: i.vpp, IpAddress: ip.String(), PhysAddress: i.mac, Static: true},
				&vpp_l3.Route{VrfId: node.podVRF, DstNetwork: single(ip).String(), OutgoingInterface: i.vpp},
			)
		}
		n.attach(w.config, i.attachment, onVPP, inPod)
	}
}

func (n *IPNet) checkCustomNames(pod *podmanager.LocalPod) map[string]string {
	problems := map[string]string{}
	for id, other := range n.pods.LocalPods() {
		if id == pod.ID {
			continue
		}
		taken := map[string]bool{n.podAttachment(other.ContainerID).vpp: true}
		for _, i := range other.Custom.Interfaces {
			taken[n.customAttachment(other.ContainerID, i).vpp] = true
		}
		for _, i := range pod.Custom.Interfaces {
			if taken[n.customAttachment(pod.ContainerID, i).vpp] {
				problems[i.Name] = fmt.Sprintf("container IDs %s and %s of pod %v are too similar: the runtime must use IDs with different prefixes", pod.ContainerID, other.ContainerID, id)
			}
		}
	}
	return problems
}

func (n *IPNet) assignCustom(ctx context.Context, pod *podmanager.LocalPod) {
	log := controller.Logger(ctx, n.log)
	err := n.ipam.ReleaseOtherPodCustomIfIPs(ctx, pod.ID, func(iface, network string) bool {
		return slices.ContainsFunc(pod.Custom.Interfaces, func(i podmanager.CustomIf) bool { return i.Name == iface && i.Network == network })
	})
	if err != nil {
		log.Error("Releasing addresses of custom interfaces failed", "pod", pod.ID, "error", err)
	}
	var problems map[string]string
	if len(pod.Custom.Interfaces) > 0 {
		problems = n.checkCustomNames(pod)
	}
	for _, i := range pod.Custom.Interfaces {
		if i.Network == podmanager.StubNetwork || problems[i.Name] != "" {
			continue
		}
		if _, err := n.ipam.AllocatePodCustomIfIP(ctx, pod.ID, i.Name, i.Network); err != nil {
			problems[i.Name] = err.Error()
		}
	}
	for name, problem := range problems {
		log.Warn("Custom interface of a pod not created", "pod", pod.ID, "interface", name, "error", problem)
	}
	n.setCustomProblems(pod.ID, problems)
}

func (n *IPNet) setCustomProblems(id podmanager.PodID, problems map[string]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(problems) == 0 {
		delete(n.customProblems, id)
		return
	}
	n.customProblems[id] = problems
}

func (n *IPNet) updateCustom(ctx context.Context, node *thisNode, event *podmanager.PodCustomIfUpdate, txn controller.UpdateOperations) (string, error) {
	pod, wired := n.pods.LocalPod(event.Pod)
	if !wired {
		return "", nil
	}
	former := *pod
	former.Custom = event.Before
	before, err := n.podNetwork(node, &former)
	if err != nil {
		return "", err
	}
	n.assignCustom(ctx, pod)
	after, err := n.podNetwork(node, pod)
	if err != nil {
		return "", err
	}
	for key := range before.config {
		if after.config[key] == nil {
			txn.Delete(key)
		}
	}
	for key, value := range after.config {
		if !proto.Equal(before.config[key], value) {
			txn.Put(key, value)
		}
	}
	var names []string
	for _, i := range after.custom {
		if i.wired() {
			name := i.Name
			for _, ip := range i.ips {
				name += " " + ip.String()
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return fmt.Sprintf("custom interfaces of pod %v: %s", event.Pod, strings.Join(names, ", ")), n.publishPodAddresses(ctx, podmanager.PodID{})
}

// publishPodAddresses publishes the service endpoints of this node's pods at custom interfaces,
// without the pod that is being deleted.
func (n *IPNet) publishPodAddresses(ctx context.Context, deleted podmanager.PodID) error {
	var list []nodesync.PodAddresses
	for id, pod := range n.pods.LocalPods() {
		if pod.Custom.EndpointIf == "" || id == deleted {
			continue
		}
		for _, i := range n.customIfs(pod) {
			if i.Name == pod.Custom.EndpointIf && i.wired() {
				list = append(list, nodesync.PodAddresses{Namespace: id.Namespace, Name: id.Name, Interface: i.Name, Addresses: i.ips})
			}
		}
	}
	return n.nodes.PublishPodAddresses(ctx, list)
}
