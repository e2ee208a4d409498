package integration

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest/frames"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

// Services carried by SRv6 segments between two kernel nodes.
func TestSegments(t *testing.T) {
	require(t)
	opts := options("sr")
	opts.ContivConfig, opts.ServiceConfig = labtest.SegmentsConfig, "services: vswitch\n"
	l := labtest.Up(t, opts)
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ip", "-n", st.Underlay(), "address", "add", "fd16::fe/112", "dev", "nodes", "nodad").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	labtest.AwaitAddresses(t, l)
	labtest.RequireSegments(t, l)
	t.Run("packets of pods to segments", func(t *testing.T) { testSegmentsOfPods(t, l) })
}

const servedByA = `apiVersion: v1
kind: Service
metadata: {name: sids, namespace: default}
spec: {clusterIP: 10.96.0.77, clusterIPs: [10.96.0.77, "fd96::77"], ipFamilies: [IPv4, IPv6], ports: [{name: udp, protocol: UDP, port: 4001}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: sids-6, namespace: default, labels: {kubernetes.io/service-name: sids}}
addressType: IPv6
ports: [{name: udp, protocol: UDP, port: 4001}]
endpoints: [{addresses: ["%v"], nodeName: node1, conditions: {ready: true}}]
`

var localSID = regexp.MustCompile(`config/vpp/srv6/v2/localsid/(\S+)`)

// testSegmentsOfPods: nodes do not decapsulate packets that pods send to their segments.
func testSegmentsOfPods(t *testing.T, l *lab.Lab) {
	pods := labtest.AddPods(t, l, lab.PodSpec{Name: "victim", Node: "node1"}, lab.PodSpec{Name: "evil", Node: "node1"}, lab.PodSpec{Name: "friend", Node: "node2"})
	victim, evil, friend := labtest.Wire(t, pods[0]), labtest.Wire(t, pods[1]), labtest.Wire(t, pods[2])
	labtest.Apply(t, l, fmt.Sprintf(servedByA, victim.Of(true)))
	var sids []netip.Addr
	await.That(t, "segments exist", func() error {
		sids = nil
		for _, node := range []string{"node1", "node2"} {
			out, err := contivLab(t, l, "ctl", "values", "config/vpp/srv6/v2/localsid/", "--node", node)
			if err != nil {
				return err
			}
			for _, m := range localSID.FindAllStringSubmatch(out, -1) {
				if sid, err := netip.ParseAddr(m[1]); err == nil {
					sids = append(sids, sid)
				}
			}
		}
		if len(sids) < 3 {
			return fmt.Errorf("%v", sids)
		}
		return nil
	})
	victim.Wire.Drain()
	var sent []string
	for _, sid := range sids {
		for _, ipv6 := range []bool{true, false} {
			text := fmt.Sprintf("[IPv6: %v, by segment %v]", ipv6, sid)
			sent = append(sent, text)
			inner := frames.Datagram(evil.MAC, evil.Gateway, friend.Of(ipv6), victim.Of(ipv6), text, false)[14:]
			outer := frames.Datagram(evil.MAC, evil.Gateway, evil.Of(true), sid, "", false)[:14+40]
			binary.BigEndian.PutUint16(outer[14+4:], uint16(len(inner)))
			outer[14+6] = map[bool]byte{true: unix.IPPROTO_IPV6, false: unix.IPPROTO_IPIP}[ipv6]
			evil.Wire.Send(t, append(outer, inner...))
		}
	}
	const last = "after the segments"
	evil.Wire.Send(t, frames.Datagram(evil.MAC, evil.Gateway, evil.Of(true), victim.Of(true), last, false))
	seen := victim.Wire.Receive(await.Patience, frames.Containing(last))
	if seen == nil {
		t.Error("packets of the pod with its own address do not arrive")
	}
	for _, text := range sent {
		if slices.ContainsFunc(seen, frames.Containing(text)) {
			t.Errorf("arrived: %s", text)
		}
	}
}
