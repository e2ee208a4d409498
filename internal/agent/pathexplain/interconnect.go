package pathexplain

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
)

// Kernel filters do not see packets forwarded by a separate vswitch. They only see packets between
// the host and pods, on their way to and from the vswitch:
//
//	kubelet ── output ──> vpp1 ══ vswitch ── pod
//	         <── input ──

// betweenHostAndPods checks for foreign rules that drop packets between the host and its pods.
func (n *Network) betweenHostAndPods(rules *foreign.Ruleset, pods []Pod) (problems []string) {
	for _, pod := range pods { // one stands for all
		for _, addr := range pod.Addresses {
			for _, text := range interconnectDrops(rules, addr, foreign.Packet{}) {
				problems = append(problems, text+": for example, the kubelet's probes of pods fail")
			}
		}
		if len(pod.Addresses) > 0 {
			break
		}
	}
	return slices.Compact(problems)
}

// interconnectDrops names the rules that drop packets between the host and an address behind the
// vswitch, in either direction. packet holds the other known attributes.
func interconnectDrops(rules *foreign.Ruleset, addr netip.Addr, packet foreign.Packet) (texts []string) {
	device, host, err := routeTo(addr)
	if err != nil || !host.IsValid() {
		return nil
	}
	there, back := packet, packet
	there.Out, there.Src, there.Dst = device, host, addr
	back.In, back.Src, back.Dst, back.DstPort = device, addr, host, 0
	for _, f := range []flow{{what: "packets of the host to pods", Packet: there}, {what: "packets of pods to the host", Packet: back}} {
		texts = append(texts, f.effects(rules, nil)...)
	}
	return texts
}

// ownStack checks the kernel and the devices of a separate vswitch.
func (e *Explainer) ownStack(ctx context.Context, r *Report, q Question, from, to end) {
	where := "node " + e.o.Node
	if from.here != to.here {
		devices, err := e.ownDevices(ctx)
		if err != nil {
			r.find(where, fmt.Sprintf("cannot read the vswitch's devices: %v", err))
		}
		e.show(r, where, devices)
	}
	// Only a node's own packets pass its kernel.
	host, other := from, to
	if !host.here || host.pod != nil {
		host, other = to, from
	}
	if !host.here || host.pod != nil || host.node == nil || other.here && other.pod == nil {
		return
	}
	rules, err := e.foreign()
	if err != nil {
		r.find(where, fmt.Sprintf("reading filters of other programs failed: %v", err))
		return
	}
	packet := foreign.Packet{Protocol: q.protocol(), DstPort: q.Port, Size: e.o.MTU()}
	for _, text := range interconnectDrops(rules, other.addr, packet) {
		r.find(where, text)
	}
}
