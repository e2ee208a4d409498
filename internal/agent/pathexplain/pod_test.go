package pathexplain

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Objects missing in a pod's network namespace are named.
func TestNetworkNamespaceOfAPod(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	const whole = "ip link add eth0 type veth peer name far; ip link set far up; ip link set eth0 up; ip addr add 10.1.1.2/32 dev eth0; ip route add 10.1.1.1 dev eth0; ip route add default via 10.1.1.1"
	const further = "ip link add net1 type veth peer name far1; ip link set far1 up; ip link set net1 up; ip addr add 10.1.1.3/32 dev net1; "
	for name, c := range map[string]struct{ then, want, leave string }{
		"whole":                     {"true", "", ""},
		"emptied":                   {"ip link del eth0", "interface eth0 is missing in the pod's network namespace", ""},
		"down":                      {"ip link set eth0 down", "its interface eth0 is down", ""},
		"no carrier":                {"ip link set far down", "its interface eth0 has no carrier", ""},
		"no address":                {"ip addr flush dev eth0", "does not have the address 10.1.1.2", ""},
		"no route":                  {"ip route del default", "it has no route to 10.1.2.2", ""},
		"other route":               {"ip addr add 10.9.0.1/24 dev far; ip route add 10.1.2.0/24 via 10.9.0.7 dev far", "through far instead of eth0", ""},
		"another of its interfaces": {then: further + "ip route add 10.1.2.2 dev net1", leave: "net1"},
		"another of its interfaces, where the way back counts": {then: further + "ip route add 10.1.2.2 dev net1; sysctl -qw net.ipv4.conf.eth0.rp_filter=1",
			want: "packets from 10.1.2.2 are dropped on arrival at eth0, because its rp_filter is 1, and its return route leads to net1", leave: "net1"},
		"a rule for its address": {then: further + "ip route add 10.1.2.2 dev net1; ip rule add from 10.1.1.2 table 100; ip route add default via 10.1.1.1 dev eth0 onlink table 100"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := fmt.Sprintf("path%d", os.Getpid())
			for _, line := range []string{"ip netns add " + ns, "ip netns exec " + ns + " sh -ec '" + whole + "; " + c.then + "'"} {
				if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", line, err, out)
				}
				t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
			}
			r := &Report{}
			all := []Pod{{Name: "default/web", NetNS: "/var/run/netns/" + ns, Interface: "eth0"}, {Name: "default/web", Interface: "net1"}, {Name: "default/db", Interface: "far"}}
			leave := r.pod(&all[0], all, netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("10.1.2.2"))
			if want := cmp.Or(c.leave, "eth0"); leave.Interface != want {
				t.Errorf("packets leave by %s, want %s", leave.Interface, want)
			}
			text := fmt.Sprint(r.Findings)
			if (len(r.Findings) == 0) != (c.want == "") || !strings.Contains(text, c.want) || c.want == "" && len(r.Way) != 1 {
				t.Errorf("got %s and %q, want %q", text, r.Way, c.want)
			}
		})
	}
	r := &Report{}
	r.pod(&Pod{Name: "default/web", NetNS: "/var/run/netns/no-such", Interface: "eth0"}, nil, netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("10.1.2.2"))
	if !strings.Contains(fmt.Sprint(r.Findings), "opening its network namespace failed") {
		t.Errorf("%v", r.Findings)
	}
}

func TestNamesOfEnds(t *testing.T) {
	e := New(Options{IsClusterIP: netip.MustParsePrefix("10.96.0.0/12").Contains, PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	for addr, want := range map[string]string{"10.1.77.7": "10.1.77.7 of the pod network, used by no pod", "10.96.0.10": "cluster IP 10.96.0.10", "203.0.113.10": "203.0.113.10 outside of the cluster"} {
		if got := e.end(netip.MustParseAddr(addr), nil, nil).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// With a separate vswitch, packets of host processes to cluster IPs may bypass it.
func TestServicesOfAVSwitchOfItsOwn(t *testing.T) {
	e := New(Options{Node: "this", HostServices: "they need a route"})
	host, pod, service := end{here: true, node: &Node{}}, end{here: true, pod: &Pod{}}, end{service: true}
	for name, c := range map[string]struct {
		from, to end
		want     int
	}{"host to service": {host, service, 1}, "pod to service": {pod, service, 0}, "host to pod": {host, pod, 0}} {
		r := &Report{translated: true}
		if e.suspectServices(r, c.from, c.to); len(r.Suspects) != c.want {
			t.Errorf("%s: %v", name, r.Suspects)
		}
	}
}

// With a separate vswitch, all endpoints of masqueraded clients see one address, which the report
// names.
func TestSightingsOnAVSwitchOfItsOwn(t *testing.T) {
	client, near, far := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddrPort("10.1.1.2:80"), netip.MustParseAddrPort("10.1.2.2:80")
	mask := netip.MustParseAddr("10.1.1.254")
	e := New(Options{Node: "this", Nodes: func() []Node { return []Node{{Name: "other"}, {Name: "this", Masks: []netip.Addr{mask}}} }})
	r := &Report{}
	e.sightings(r, Question{From: client}, []netip.AddrPort{near, far}, netip.Addr{})
	if want := []Sighting{{near, mask}, {far, mask}}; !slices.Equal(r.Sightings, want) || !strings.Contains(fmt.Sprint(r.Way), "see 10.1.1.254, not 203.0.113.7") {
		t.Errorf("%v, %q", r.Sightings, r.Way)
	}
	redirected := netip.MustParseAddr("172.30.1.3")
	r = &Report{}
	e.sightings(r, Question{From: client}, []netip.AddrPort{far}, redirected)
	if want := []Sighting{{far, redirected}}; !slices.Equal(r.Sightings, want) || !strings.Contains(fmt.Sprint(r.Way), "see 172.30.1.3, not 203.0.113.7") {
		t.Errorf("redirected by the host: %v, %q", r.Sightings, r.Way)
	}
}

// Endpoints see the translated source of packets entering the node.
func TestSightingsOfTranslatedClients(t *testing.T) {
	pod, client := netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("192.168.16.1")
	endpoint := netip.MustParseAddrPort("10.1.2.2:80")
	for name, hidden := range map[string][]netip.AddrPort{"policy Local": nil, "policy Cluster": {endpoint}} {
		e := New(Options{Node: "this", HostStack: true, Nodes: func() []Node {
			return []Node{{Name: "this", Pods: []netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}}}
		},
			Verdicts: []func(context.Context, Question) Verdict{func(context.Context, Question) Verdict {
				return Verdict{Translated: true, Endpoints: []netip.AddrPort{endpoint}, Client: client, Hidden: hidden}
			}}})
		r := &Report{}
		e.verdicts(t.Context(), r, Question{From: pod, To: netip.MustParseAddr("192.168.16.2")})
		if want := []Sighting{{endpoint, client}}; !slices.Equal(r.Sightings, want) {
			t.Errorf("%s: %v, want %v", name, r.Sightings, want)
		}
	}
}

func TestBadQuestions(t *testing.T) {
	e := New(Options{})
	for query, want := range map[string]string{
		"":                              "from must be an IP address",
		"from=web&to=10.1.1.2":          "from must be an IP address",
		"from=10.1.1.2&to=fd00::1":      "same IP version",
		"from=::1&to=::1&protocol=dccp": "protocol is tcp, udp or sctp",
		"from=::1&to=::1&protocol=tcp":  "port 1 to 65535",
	} {
		answer := httptest.NewRecorder()
		e.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, URL+"?"+query, nil))
		if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), want) && query != "" {
			t.Errorf("%q: %d %s", query, answer.Code, answer.Body)
		}
	}
}
