package vpp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
)

const externalService = `apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: tenant}
spec: {type: NodePort, clusterIP: %[2]s, clusterIPs: [%[2]s], externalIPs: [%[3]v], ports: [{protocol: %[4]s, port: %[5]d, nodePort: %[6]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: tenant, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{protocol: %[4]s, port: %[7]d}]
endpoints: [{addresses: [%[8]v], conditions: {ready: true}}]
---
`

// testReserved: services cannot use the VXLAN or etcd ports, and cannot forward into a tunnel.
func (l *attackLab) testReserved(t *testing.T) {
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, node2 := st.Nodes[0].Address.Addr(), st.Nodes[1].Address.Addr()
	etcd := netip.MustParseAddr("192.168.16.254")
	objects := fmt.Sprintf(externalService, "own", "10.96.9.1", node1, "UDP", 4789, 30701, 7777, l.evil.Of(false)) +
		fmt.Sprintf(externalService, "peer", "10.96.9.2", node2, "UDP", 4789, 30702, 7777, l.evil.Of(false)) +
		fmt.Sprintf(externalService, "etcd", "10.96.9.3", etcd, "TCP", 32379, 30703, 7777, l.evil.Of(false)) +
		fmt.Sprintf(externalService, "to-own", "10.96.9.4", "198.51.100.1", "UDP", 4001, 30704, 4789, node1) +
		fmt.Sprintf(externalService, "to-peer", "10.96.9.5", "198.51.100.2", "UDP", 4001, 30705, 4789, node2)
	labtest.Apply(t, l.Lab, objects)
	for name, why := range map[string]string{
		"own":     fmt.Sprintf("%v:4789/UDP is not translated, because port 4789/UDP is reserved for the tunnels between nodes (VXLAN)", node1),
		"peer":    fmt.Sprintf("%v:4789/UDP is not translated, because port 4789/UDP is reserved for the tunnels between nodes (VXLAN)", node2),
		"etcd":    fmt.Sprintf("%v:32379/TCP is not translated, because port 32379/TCP is reserved for etcd", etcd),
		"to-own":  fmt.Sprintf("endpoint %v:4789/UDP gets no clients", node1),
		"to-peer": fmt.Sprintf("endpoint %v:4789/UDP gets no clients", node2),
	} {
		await.That(t, "service "+name+" reports its missing ports", func() error {
			var report service.Report
			if err := l.Agent("node1").Get(t.Context(), service.URL+"?service=tenant/"+name, &report); err != nil {
				return err
			}
			if got := fmt.Sprint(report.Services); !strings.Contains(got, why) {
				return fmt.Errorf("%s, want %q", got, why)
			}
			return nil
		})
	}
	l.wantService(t)

	bvi := func(node byte) frames.MAC { return frames.MAC{0x12, 0x2b, 0, 0, 0, node} }
	var sent []string
	l.near.Wire.Drain()
	l.far.Wire.Drain()
	for at, to := range map[uint16]struct {
		pod, other *labtest.WiredPod
		node       byte
	}{30704: {l.near, l.far, 1}, 30705: {l.far, l.near, 2}} {
		for from, netns := range map[string]string{"pod": l.evil.Netns, "router": st.Underlay()} {
			text := fmt.Sprintf("VXLAN of the %s to port %d", from, at)
			sent = append(sent, text)
			inner := frames.Datagram(frames.MAC{2, 0, 0, 0, 0, 1}, bvi(to.node), to.other.Of(false), to.pod.Of(false), text+"        ", false)
			labtest.SendVXLANTo(t, netns, netip.Addr{}, netip.AddrPortFrom(node1, at), inner)
		}
	}
	for _, p := range []*labtest.WiredPod{l.near, l.far} {
		const last = "after the tunnel's port"
		l.evil.Wire.Send(t, frames.Datagram(l.evil.MAC, l.evil.Gateway, l.evil.Of(false), p.Of(false), last, false))
		seen := p.Wire.Receive(await.Patience, frames.Containing(last))
		if seen == nil {
			t.Errorf("packets other than VXLAN do not arrive at %s", p.Name)
		}
		for _, text := range sent {
			if slices.ContainsFunc(seen, frames.Containing(text)) {
				t.Errorf("arrived: %s", text)
			}
		}
	}
	l.wantService(t)

	labtest.Delete(t, l.Lab, objects)
	await.That(t, "the agent has seen that the services went", func() error {
		for _, name := range []string{"own", "peer", "etcd", "to-own", "to-peer"} {
			if err := l.Agent("node1").Get(t.Context(), service.URL+"?service=tenant/"+name, &service.Report{}); err == nil {
				return fmt.Errorf("service %s is there", name)
			}
		}
		return nil
	})
}
