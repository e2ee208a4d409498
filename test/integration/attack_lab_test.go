package integration

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const podLimit = 100

const (
	attackIPv4 = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
natExternalTrafficIPv6: true
podConnectionLimit: 100
podAllowedSources: 10.200.0.0/24,fd99::/64
`
	attackIPv6 = `
ipamConfig:
  contivCIDR: fd10::/64
  nodeInterconnectCIDR: fd16::/112
  serviceCIDR: fd96::/108
`
)

// attackLab has the pods evil and near on node1 and far on node2.
type attackLab struct {
	*lab.Lab
	state           *lab.State
	node1, node2    lab.Node
	evil, near, far *labtest.WiredPod
	barriers        int
}

func newAttackLab(t *testing.T, config string) *attackLab {
	require(t)
	l := &attackLab{Lab: labWith(t, config)}
	pods := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "evil", Node: "node1"}, lab.PodSpec{Name: "near", Node: "node1"}, lab.PodSpec{Name: "far", Node: "node2"})
	var err error
	if l.state, err = l.State(); err != nil {
		t.Fatal(err)
	}
	l.node1, l.node2 = l.state.Nodes[0], l.state.Nodes[1]
	command.In(t, l.state.Underlay(), "ip address add fd16::fe/112 dev nodes nodad; ip address add fd20::1/128 dev lo nodad; sysctl -qw net.ipv6.conf.all.forwarding=1")
	labtest.AwaitAddresses(t, l.Lab)
	l.evil, l.near, l.far = labtest.Wire(t, pods[0]), labtest.Wire(t, pods[1]), labtest.Wire(t, pods[2])
	for _, to := range []*labtest.WiredPod{l.near, l.far} {
		for _, addr := range to.Addrs {
			await.That(t, "pods reach each other", func() error { return pingIn(t.Context(), l.evil.Netns, addr, 1280) })
		}
	}
	return l
}

func outsideOf(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.MustParseAddr("fd20::1")
	}
	return lab.OutsideAddress.Addr()
}

func wireIn(t *testing.T, netns, device string) (w *frames.Wire) {
	t.Helper()
	if err := labtest.Inside(netns, func() (err error) {
		w, err = frames.NewWire(device)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// arrived sends forged frames from evil, followed by a valid datagram to each address. It returns
// the forged texts that arrived before those datagrams.
func (l *attackLab) arrived(t *testing.T, forged map[string][]byte, ears map[netip.Addr]*frames.Wire) (names []string) {
	t.Helper()
	for _, ear := range ears {
		ear.Drain()
	}
	for _, name := range slices.Sorted(maps.Keys(forged)) {
		l.evil.Wire.Send(t, forged[name])
	}
	for addr, ear := range ears {
		l.barriers++
		last := fmt.Sprintf("barrier-%d-", l.barriers)
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(addr.Is6()), addr, last, false))
		seen := ear.Receive(await.Patience, frames.Containing(last))
		if seen == nil {
			t.Errorf("packets of the pod to %v with its own address do not arrive", addr)
		}
		for name := range forged {
			if slices.ContainsFunc(seen, frames.Containing(name)) {
				names = append(names, name)
			}
		}
	}
	return names
}

type dropKey struct {
	pod    string
	reason vswitch.DropReason
}

func (l *attackLab) drops(t *testing.T, node string) map[dropKey]uint64 {
	t.Helper()
	var report statscollector.DropsReport
	if err := l.Agent(node).Get(t.Context(), statscollector.DropsURL, &report); err != nil {
		t.Fatal(err)
	}
	counts := map[dropKey]uint64{}
	for _, d := range report.Drops {
		counts[dropKey{d.Pod, vswitch.DropReason(d.Reason)}] += d.Packets
	}
	return counts
}

// wantCounted waits until node1 has counted n more drops than before, and checks contivctl and the
// metrics. An empty pod means drops without a pod.
func (l *attackLab) wantCounted(t *testing.T, before map[dropKey]uint64, pod string, reason vswitch.DropReason, more int) {
	t.Helper()
	key := dropKey{pod, reason}
	var now uint64
	await.That(t, fmt.Sprintf("%d drops of %q because of %s", more, pod, reason), func() error {
		if now = l.drops(t, "node1")[key]; now < before[key]+uint64(more) {
			return fmt.Errorf("%d, before it were %d", now, before[key])
		}
		return nil
	})
	labels := fmt.Sprintf("podName=%q,podNamespace=\"default\",reason=%q", pod, reason)
	if pod == "" {
		labels = fmt.Sprintf("podName=\"--\",podNamespace=\"--\",reason=%q", reason)
	}
	if got := counter(t, l.Lab, "node1", "guardDropPackets", labels); got < float64(now) {
		t.Errorf("the metric guardDropPackets of %s is %v, want %d", labels, got, now)
	}
	out, err := contivLab(t, l.Lab, "ctl", "drops", "node1")
	told := err == nil
	if told {
		told = false
		for line := range strings.Lines(out) {
			told = told || strings.Contains(line, " "+pod) && slices.Contains(strings.Fields(line), string(reason))
		}
	}
	if !told {
		t.Errorf("contivctl drops says nothing of %q and %s: %v\n%s", pod, reason, err, out)
	}
}

func (l *attackLab) wantService(t *testing.T) {
	t.Helper()
	for _, pair := range [][2]*labtest.WiredPod{{l.near, l.far}, {l.far, l.near}, {l.near, l.evil}, {l.evil, l.far}} {
		for _, addr := range pair[1].Addrs {
			if err := pingIn(t.Context(), pair[0].Netns, addr, 1280); err != nil {
				t.Errorf("%s → %s: %v", pair[0].Name, pair[1].Name, err)
			}
		}
	}
}

// sendInTurn sends frames in batches that fit the kernel's queues.
func (l *attackLab) sendInTurn(t *testing.T, list [][]byte) {
	t.Helper()
	const atOnce = 400
	addr := l.near.Of(false)
	for chunk := range slices.Chunk(list, atOnce) {
		l.near.Wire.Drain()
		for _, frame := range chunk {
			l.evil.Wire.Send(t, frame)
		}
		l.barriers++
		last := fmt.Sprintf("barrier-%d-", l.barriers)
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), addr, last, false))
		if l.near.Wire.Receive(await.Patience, frames.Containing(last)) == nil {
			t.Fatal("packets of the pod with its own address do not arrive")
		}
	}
}
