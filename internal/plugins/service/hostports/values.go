package hostports

import (
	"crypto/sha256"
	"fmt"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/plugins/service/renderer/nat"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// The capital letter excludes conflicts with namespaces.
const labelPrefix = "hostPort/"

// maxLabel is the kernel's limit in bytes. Labels of services are shorter.
const maxLabel = 127

// A hash replaces the end of a long name.
func labelOf(pod podmanager.PodID) processor.ID {
	id := processor.ID{Namespace: labelPrefix + pod.Namespace, Name: pod.Name}
	if long := len(id.String()) - maxLabel; long > 0 {
		sum := sha256.Sum256([]byte(pod.Name))
		hash := fmt.Sprintf("~%x", sum[:6])
		id.Name = pod.Name[:max(len(pod.Name)-long-len(hash), 0)] + hash
	}
	return id
}

// render returns a value per IP version and one for the host, by key. A value without ports is
// nil.
func (h *HostPorts) render(pod *podmanager.LocalPod, open OpenPorts) map[string]proto.Message {
	values := map[string]proto.Message{}
	if h.node.HasOwnStack() {
		redirect := &contiv_nat.HostRedirect{Label: labelOf(pod.ID).String(), Frontends: open.Redirects}
		key := models.Key(redirect)
		if values[key] = nil; len(open.Redirects) > 0 {
			values[key] = redirect
		}
	}
	for _, ip := range h.node.Addresses.GetPodIPs(pod.ID) {
		ipv6 := ip.Is6()
		svc := &processor.Service{ID: labelOf(pod.ID)}
		for _, f := range open.Frontends {
			if f.Addr.Addr().Is6() == ipv6 {
				svc.Frontends = append(svc.Frontends, f)
			}
		}
		key := nat.Key(svc.ID, ipv6)
		if values[key] = nil; len(svc.Frontends) > 0 {
			values[key] = nat.Render(svc, ipv6, h.node.NATOptions())
		}
	}
	return values
}

var globalKey = models.Key(&vpp_nat.Nat44Global{})

func (h *HostPorts) shared() map[string]proto.Message {
	values := map[string]proto.Message{}
	if pool := h.node.HairpinPool(); pool != nil {
		global := h.node.GlobalNAT()
		values[models.Key(global)], values[models.Key(pool)] = global, pool
	}
	if !h.node.Caps.HostStackShared && !h.node.HasOwnStack() {
		return values // the interfaces configure the translation
	}
	network := h.node.ServiceNetwork()
	key := models.Key(network)
	if full := h.proxy.ServiceNetwork(); full != nil { // the value for services contains more
		values[key] = full
	} else if len(network.GetInside()) > 0 {
		values[key] = network
	}
	return values
}
