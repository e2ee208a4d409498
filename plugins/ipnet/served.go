package ipnet

import (
	"fmt"
	"net/netip"
	"slices"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/podmanager"
	"google.golang.org/protobuf/proto"
)

// Serve gives a pod of this node the addresses of services whose packets reach it untranslated: it has
// them on its loopback, and may send from them. It returns the values that the pod has now instead
// of those of its wiring; the same for a wiring that is computed later. It must be called from the
// event loop, after IPNet has handled the event.
func (n *IPNet) Serve(id podmanager.PodID, addrs []netip.Addr) (map[string]proto.Message, error) {
	n.mu.Lock()
	before := n.served[id]
	if len(addrs) == 0 {
		delete(n.served, id)
	} else {
		n.served[id] = slices.Clone(addrs)
	}
	n.mu.Unlock()
	node := n.thisNode()
	pod, wired := n.pods.LocalPod(id)
	if node == nil || !wired || len(before) == 0 && len(addrs) == 0 {
		return nil, nil
	}
	w, err := n.wiring(node, pod)
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

// addServed adds the addresses that the pod serves.
func (n *IPNet) addServed(id podmanager.PodID, loopback *linux_interfaces.Interface) (more []netip.Addr) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, addr := range n.served[id] {
		loopback.IpAddresses = append(loopback.IpAddresses, single(addr).String())
	}
	return n.served[id]
}
