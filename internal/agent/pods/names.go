// Package pods relates interfaces, sandboxes and addresses of a node to its pods, and checks them against
// the pods in Kubernetes.
package pods

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// Names maps the logical names of interfaces to the node's pods.
type Names struct {
	pods  func() podmanager.LocalPods
	names func(podmanager.PodID) (vpp, linux, loopback string, exists bool)
}

// NewNames returns the names of the pods that wiring has connected.
func NewNames(pods *podmanager.PodManager, wiring *ipnet.IPNet) Names {
	return Names{pods.LocalPods, wiring.GetPodIfNames}
}

// InText replaces interface names in a text by the names of their pods.
func (p Names) InText(text string) string {
	var names []string
	for id := range p.pods() {
		if vpp, linux, loopback, exists := p.names(id); exists {
			inside, outside := "the interface of pod "+id.String(), "the vswitch's interface of pod "+id.String()
			names = append(names, fmt.Sprintf("interface %q", vpp), outside, "interface "+vpp, outside, vpp, outside, "device "+own.DeviceName(own.DevInterface, vpp), outside,
				"interface "+linux, inside, linux, inside, loopback, "the loopback of pod "+id.String())
		}
	}
	return strings.NewReplacer(names...).Replace(text)
}

// Owners returns a function that returns the pod whose network a key belongs to, "" if none.
func (p Names) Owners() func(key string) string {
	of := map[string]string{}
	for id := range p.pods() {
		if vpp, linux, loopback, exists := p.names(id); exists {
			for _, name := range []string{vpp, linux, loopback} {
				of[name] = "the network of pod " + id.String()
			}
		}
	}
	return func(key string) string {
		for part := range strings.SplitSeq(key, "/") {
			if owner := of[part]; owner != "" {
				return owner
			}
		}
		return ""
	}
}
