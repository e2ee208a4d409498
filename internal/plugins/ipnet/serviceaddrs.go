package ipnet

import (
	"fmt"
	"net/netip"
	"slices"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Serve assigns service addresses to the loopback of a pod of this node, for packets that arrive
// untranslated, and permits them as sources. It returns the pod's new values; later networks of the pod include
// them. Call it from the event loop after IPNet has handled the event.
func (n *IPNet) Serve(id podmanager.PodID, addrs []netip.Addr) (map[string]proto.Message, error) {
	n.mu.Lock()
	before := n.serviceAddrs[id]
	if len(addrs) == 0 {
		delete(n.serviceAddrs, id)
	} else {
		n.serviceAddrs[id] = slices.Clone(addrs)
	}
	n.mu.Unlock()
	node := n.thisNode()
	pod, wired := n.pods.LocalPod(id)
	if node == nil || !wired || len(before) == 0 && len(addrs) == 0 {
		return nil, nil
	}
	w, err := n.podNetwork(node, pod)
	if err != nil {
		return nil, fmt.Errorf("addresses of services for pod %v: %w", id, err)
	}
	changed := make(values)
	if loopback := w.config[models.LinuxInterfaceKey(w.loopback)]; loopback != nil {
		changed.add(loopback)
	}
	for _, g := range w.guards {
		changed.add(g)
	}
	return changed, nil
}

func (n *IPNet) addServiceAddrs(id podmanager.PodID, loopback *linux_interfaces.Interface) (more []netip.Addr) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, addr := range n.serviceAddrs[id] {
		loopback.IpAddresses = append(loopback.IpAddresses, single(addr).String())
	}
	return n.serviceAddrs[id]
}
