package main

import (
	"fmt"
	"strings"

	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/vswitch/kernel/own"
)

// podNames maps the logical names of interfaces to the node's pods.
type podNames struct {
	pods  func() podmanager.LocalPods
	names func(podmanager.PodID) (vpp, linux, loopback string, exists bool)
}

func newPodNames(pods *podmanager.PodManager, wiring *ipnet.IPNet) podNames {
	return podNames{pods.LocalPods, wiring.GetPodIfNames}
}

// inText replaces interface names in a text by the names of their pods.
func (p podNames) inText(text string) string {
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

// owners returns a function that returns the pod whose network a key belongs to, "" if none.
func (p podNames) owners() func(key string) string {
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
