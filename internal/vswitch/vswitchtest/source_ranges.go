package vswitchtest

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// testSourceRanges tests guards with ranges for a mapping that does not check sources: pod 2 has a
// guard, pod 3 has none.
func (l *serviceLab) testSourceRanges(t *testing.T) {
	if l.agent.vs.SourceRanges() == nil {
		t.Skip("the mappings of this vswitch look at sources; to run this on VPP: VPP_BIN=/path/to/vpp go test ./internal/vswitch/vpp -run Conformance")
	}
	defer l.serve(t, l.mapping(tcp44, 1))
	values := []proto.Message{l.network, l.value(l.mapping(tcp44, 1), l.mapping(udp44, 1))}
	values = append(values, &guard.SourceGuard{Interface: "pod2", MacAddress: l.pods[2].mac(t), IpAddresses: []string{l.pod(2)}})
	restrict := func(tcp, udp []string) {
		t.Helper()
		frontend := func(protocol guard.SourceRanges_Protocol, sources []string) *guard.SourceRanges_Frontend {
			return &guard.SourceRanges_Frontend{Address: l.service, Port: 80, Protocol: protocol, Sources: sources}
		}
		l.set(t, append(values, &guard.SourceRanges{
			Frontends: []*guard.SourceRanges_Frontend{frontend(guard.SourceRanges_TCP, tcp), frontend(guard.SourceRanges_UDP, udp)}, Interface: "pod3",
		})...)
	}
	host := func(n int) string { return fmt.Sprintf("%s/%d", l.pod(n), l.bits()) }
	may := func(n int, networks ...string) {
		t.Helper()
		for _, network := range networks {
			l.pods[n].want(t, network, l.service, 80, "pod1", l.pod(n))
		}
	}
	mayNot := func(n int) {
		t.Helper()
		l.wantIgnored(t, l.pods[n], "")
		c, err := l.pods[n].call(t, "udp", "", l.service, 80)
		if err != nil {
			t.Fatal(err)
		}
		c.wantSilence(t)
	}
	l.set(t, values...)
	may(2, "tcp", "udp")
	established := map[int]caller{}
	for _, n := range []int{2, 3} {
		c, err := l.pods[n].call(t, "tcp", "", l.service, 80)
		if err != nil {
			t.Fatal(err)
		}
		c.wantAnswer(t, "pod1")
		established[n] = c
	}
	goesOn := func(n int) {
		t.Helper()
		established[n].wantAnswer(t, "pod1")
		l.pods[n].want(t, "tcp", l.pod(1), servicePort, "pod1", l.pod(n))
		l.pods[1].want(t, "tcp", l.pod(n), servicePort, fmt.Sprintf("pod%d", n), l.pod(1))
	}
	restrict([]string{host(3), l.client(10) + "/" + fmt.Sprint(l.bits())}, []string{host(3)})
	may(3, "tcp", "udp")
	mayNot(2)
	l.wantDrops(t, 2, 2)
	goesOn(2)
	goesOn(3)
	l.world.want(t, "tcp", l.service, 80, "pod1", l.outside) // the world has no guard

	wide := fmt.Sprintf("%s/%d", l.pod(3), l.bits()-3) // a prefix that ends within a byte
	restrict([]string{wide, host(2)}, nil)
	may(2, "tcp")
	may(3, "tcp")
	restrict(nil, []string{host(2)})
	mayNot(3)
	l.wantDrops(t, 3, 2)
	goesOn(3)
	may(2, "udp")
	l.wantIgnored(t, l.pods[2], "")
	restrict([]string{l.client(10) + "/0"}, []string{l.client(10) + "/0"})
	may(2, "tcp", "udp")
	may(3, "tcp", "udp")
	if err := l.pods[3].Ping(l.pod(1), 1400, longWait); err != nil {
		t.Error(err)
	}

	l.set(t, values...)
	may(2, "tcp", "udp")
	may(3, "tcp", "udp")
	if state := l.agent.ValueStatus(models.SourceRanges.KeyPrefix()).GetValue(); state.GetState() != 0 {
		t.Errorf("the value is %v after its deletion", state.GetState())
	}
}

// wantDrops waits until at least the given number of a pod's packets has been dropped because of
// ranges.
func (l *serviceLab) wantDrops(t testing.TB, pod, least int) {
	t.Helper()
	iface := fmt.Sprint("pod", pod)
	var list []vswitch.Drop
	for deadline := time.Now().Add(longWait); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if list, err = l.agent.vs.SourceGuards().Drops(t.Context()); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(list, func(d vswitch.Drop) bool {
			return d.Interface == iface && d.Reason == vswitch.DropRanges && d.Packets >= uint64(least)
		}) {
			return
		}
	}
	t.Errorf("forbidden packets of pod %d are not counted: %v", pod, list)
}

var macOfLink = regexp.MustCompile(`link/ether ([0-9a-f:]{17})`)

func (h *Host) mac(t testing.TB) string {
	t.Helper()
	found := macOfLink.FindStringSubmatch(h.Exec(t, "ip link show dev eth0"))
	if found == nil {
		t.Fatal("eth0 has no MAC address")
	}
	return found[1]
}
