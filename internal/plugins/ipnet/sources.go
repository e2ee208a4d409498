package ipnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/models"
)

// SourcesAnnotation lists additional source addresses of a pod, separated by commas. They must be
// in networks of the option podAllowedSources.
const SourcesAnnotation = "contivpp.io/allowed-sources"

const maxSources = 32

// moreSources returns the additional source addresses of an annotation that the administrator
// permits and no node has. refused lists the others with reasons.
func (n *IPNet) moreSources(node *thisNode, annotation string) (addrs []netip.Addr, refused []string) {
	refuse := func(why string, args ...any) { refused = append(refused, fmt.Sprintf(why, args...)) }
	for part := range strings.SplitSeq(annotation, ",") {
		part = strings.TrimSpace(part)
		addr, err := kubeaddr.ParseAddr(part)
		permitted := slices.ContainsFunc(n.config.AllowedSources(), func(p netip.Prefix) bool { return p.Contains(addr) })
		switch {
		case part == "":
		case err != nil:
			refuse("%.64q is not an IP address: use addresses such as 10.200.0.10, separated by commas", part)
		case !permitted:
			refuse("%v is in none of the networks of the option podAllowedSources", addr)
		case n.isOfNode(node, addr):
			refuse("%v is the address of a node", addr)
		case len(addrs) == maxSources:
			refuse("%v is one too many: a pod may have at most %d further addresses", addr, maxSources)
			return addrs, refused
		case !slices.Contains(addrs, addr):
			addrs = append(addrs, addr)
		}
	}
	return addrs, refused
}

func (n *IPNet) warnOfSources(w *podNetwork, id podmanager.PodID) {
	if len(w.refused) > 0 {
		n.log.Warn("Some source addresses in the annotation of a pod are refused", "pod", id, "annotation", SourcesAnnotation, "refused", strings.Join(w.refused, "; "))
	}
}

func (n *IPNet) isOfNode(node *thisNode, addr netip.Addr) bool {
	has := func(p netip.Prefix) bool { return p.Addr() == addr }
	if slices.ContainsFunc(node.ips, has) {
		return true
	}
	for _, other := range n.nodes.GetAllNodes() {
		if slices.Contains(n.NodeAddresses(other), addr) {
			return true
		}
	}
	return false
}

func (n *IPNet) podChanged(node *thisNode, event *controller.KubeStateChange, txn controller.UpdateOperations) (string, error) {
	prev, _ := event.PrevValue.(*pod.Pod)
	next, _ := event.NewValue.(*pod.Pod)
	if prev.GetAnnotations()[SourcesAnnotation] == next.GetAnnotations()[SourcesAnnotation] && prev.GetUid() == next.GetUid() {
		return "", nil
	}
	id := podmanager.IDOf(prev)
	if next != nil {
		id = podmanager.IDOf(next)
	}
	local, wired := n.pods.LocalPod(id)
	if !wired {
		return "", nil
	}
	annotations := next.GetAnnotations()
	if next != nil && !podmanager.FromKube(next).Runs(n.config.NodeName(), local.UID) {
		annotations = nil
	}
	w, err := n.podNetworkWith(node, local, annotations)
	if err != nil || len(w.guards) == 0 {
		return "", err
	}
	n.warnOfSources(w, id)
	w.putGuards(txn)
	return fmt.Sprintf("allow pod %v to send from the addresses in its annotation %s", id, SourcesAnnotation), nil
}

func (w *podNetwork) putGuards(txn controller.UpdateOperations) {
	for _, g := range w.guards {
		txn.Put(models.Key(g), g)
	}
}

func (n *IPNet) nodeTakesSources(node *thisNode, txn controller.UpdateOperations) {
	for _, local := range n.pods.LocalPods() {
		p, known := n.pods.PodOf(local)
		if !known || p.Annotations[SourcesAnnotation] == "" {
			continue
		}
		if w, err := n.podNetwork(node, local); err == nil {
			w.putGuards(txn)
		}
	}
}
