package servicelab

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// balancedText is a service with load balancer addresses and an external one, and without node
// ports. Its number is the last part of its addresses.
const balancedText = `---
apiVersion: v1
kind: Service
metadata: {name: s%[1]d, namespace: default}
spec:
  type: LoadBalancer
  allocateLoadBalancerNodePorts: false
  clusterIP: 10.96.0.%[1]d
  clusterIPs: [10.96.0.%[1]d, "fd96::%[1]d"]
  ipFamilies: [IPv4, IPv6]
  externalIPs: [198.51.100.%[1]d, "2001:db8::a:%[1]d"]
  loadBalancerSourceRanges: [%[2]s]
  ports: [{name: tcp, protocol: TCP, port: 80, targetPort: 8080}, {name: udp, protocol: UDP, port: 80, targetPort: 8080}, {name: sctp, protocol: SCTP, port: 80, targetPort: 8080}]
status:
  loadBalancer:
    ingress:
    - {ip: 198.51.101.%[1]d, ipMode: VIP}
    - {ip: "2001:db8::b:%[1]d"}
    - {ip: 198.51.102.%[1]d, ipMode: Proxy}
    - {ip: "2001:db8::c:%[1]d", ipMode: Proxy}
`

func (s *serviceLab) balanced(number int, ranges []string, pods ...string) string {
	var quoted []string
	for _, r := range ranges {
		quoted = append(quoted, `"`+r+`"`)
	}
	const slice = "---\napiVersion: discovery"
	_, slices, some := strings.Cut(s.service(number, "", ready(pods...)...), slice)
	if some {
		slices = slice + strings.ReplaceAll(slices, "protocol: UDP, port: 8080}", "protocol: UDP, port: 8080}, {name: sctp, protocol: SCTP, port: 8080}")
	}
	return fmt.Sprintf(balancedText, number, strings.Join(quoted, ", ")) + slices
}

func withoutSCTP(objects string) string {
	return strings.ReplaceAll(objects, ", {name: sctp, protocol: SCTP, port: 80, targetPort: 8080}", "")
}

func withoutIPv6(objects string) string {
	objects = regexp.MustCompile(`(?m)^ *- \{ip: "2001:.*\n`).ReplaceAllString(objects, "")
	return strings.ReplaceAll(regexp.MustCompile(`, "(fd96|2001):[^"]*"`).ReplaceAllString(objects, ""), "[IPv4, IPv6]", "[IPv4]")
}

func at(ipv4, ipv6 string, number int, version6 bool) netip.AddrPort {
	text := ipv4
	if version6 {
		text = ipv6
	}
	return netip.AddrPortFrom(netip.MustParseAddr(text+fmt.Sprint(number)), 80)
}

// LoadBalancers tests external addresses with TCP, UDP and SCTP: virtual and proxied load balancer
// addresses, source ranges, and services without node ports.
func LoadBalancers(t *testing.T, l *lab.Lab) {
	s := newServiceLab(t, l)
	for name := range s.addrs {
		labtest.TellNameBySCTP(t, s.netns(t, name), name, 8080)
	}
	const open, restricted, ipv4, empty = 10, 11, 12, 13
	mate := labtest.GlobalAddresses(t, s.clients[0].netns)
	ranges := []string{lab.RouterAddress.Addr().String() + "/32", "fd16::fe/128"}
	for _, a := range mate {
		ranges = append(ranges, fmt.Sprintf("%s/%d", a, a.BitLen()))
	}
	objects, bySCTP := s.balanced(open, nil, "near", "far"), open
	objects += s.balanced(restricted, ranges, "near", "far") + s.balanced(empty, nil)
	if s.vpp { // VPP does not implement SCTP over IPv6
		objects, bySCTP = withoutSCTP(objects)+withoutIPv6(s.balanced(ipv4, nil, "near", "far")), ipv4
	}
	const reserved = 14 // requests a pod's address and, on VPP, an address of a host NIC
	near := s.addrs["near"][0]
	objects += strings.Replace(withoutSCTP(s.balanced(reserved, nil, "far")), "externalIPs: [", fmt.Sprintf("externalIPs: [192.168.16.1, %q, ", near), 1)
	s.apply(t, objects)
	for _, from := range s.clients {
		if from.node == "" {
			continue
		}
		if err := s.answers(from.netns, "tcp", netip.AddrPortFrom(clusterIP(reserved, false), 80), "far"); err != nil {
			t.Errorf("%s, a service that asks for addresses of others: %v", from.who, err)
		}
		if h, err := labtest.AskName(from.netns, "tcp", netip.AddrPortFrom(near, 80)); err == nil {
			t.Errorf("%s: a service has the address of a pod: %s answers", from.who, h.Name)
		}
	}
	both := "near far"
	var all sync.WaitGroup
	for i, from := range s.clients {
		all.Go(func() {
			for _, ipv6 := range []bool{false, true} {
				check := func(what string, to netip.AddrPort, want string) {
					for _, network := range []string{"tcp", "udp"} {
						if err := s.answers(from.netns, network, to, want); err != nil {
							t.Errorf("%s by %s, %s at %v: %v", from.who, network, what, to, err)
						}
					}
				}
				unserved := s.vpp && ipv6 && from.who == "a process of the node" // the host's only IPv6 address is the one towards VPP
				if !unserved {
					check("an external address", at("198.51.100.", "2001:db8::a:", open, ipv6), both)
					check("a load balancer", at("198.51.101.", "2001:db8::b:", open, ipv6), both)
					if err := s.answers(from.netns, "tcp", at("198.51.100.", "2001:db8::a:", empty, ipv6), refused); err != nil {
						t.Errorf("%s, an external address without endpoint, IPv6 %v: %v", from.who, ipv6, err)
					}
				}
				proxied := at("198.51.102.", "2001:db8::c:", open, ipv6)
				if _, err := labtest.AskName(from.netns, "tcp", proxied); err == nil {
					t.Errorf("%s: the address of a proxy, %v, is translated", from.who, proxied)
				}
				s.requireSCTP(t, from, ipv6, bySCTP, uint16(20000+1000*i))
				if unserved {
					continue
				}
				allowed := ignored
				if from.who == "a pod of the node" || from.who == "outside" {
					allowed = both
				}
				check("a load balancer for some", at("198.51.101.", "2001:db8::b:", restricted, ipv6), allowed)
				check("its external address", at("198.51.100.", "2001:db8::a:", restricted, ipv6), both)
			}
		})
	}
	all.Wait()
}

func (s *serviceLab) requireSCTP(t *testing.T, from client, ipv6 bool, number int, port uint16) {
	t.Helper()
	if s.vpp && (ipv6 || from.node == "" || from.who == "the endpoint itself") {
		return // VPP does not support SCTP over IPv6 and drops SCTP of a pod to itself
	}
	to := netip.AddrPortFrom(clusterIP(number, ipv6), 80)
	if from.node == "" {
		to = at("198.51.100.", "2001:db8::a:", number, ipv6)
	}
	if ipv6 {
		port += 500
	}
	names := map[string]bool{}
	for n := uint16(0); n < 100 && len(names) < 2; n++ {
		h, err := labtest.AskNameBySCTP(from.netns, to, port+n)
		if err != nil {
			t.Errorf("%s by SCTP to %v: %v", from.who, to, err)
			return
		}
		if from.who == "a pod of the node" && h.Seen != h.Own {
			t.Errorf("%s by SCTP to %v: the endpoint sees %v, the client is %v", from.who, to, h.Seen, h.Own)
		}
		names[h.Name] = true
	}
	if s.vpp && len(names) == 1 {
		return // VPP ignores SCTP ports, so a client always reaches the same endpoint
	}
	if !names["near"] || !names["far"] {
		t.Errorf("%s by SCTP to %v: only %v answer", from.who, to, names)
	}
}

func (s *serviceLab) netns(t *testing.T, pod string) string {
	t.Helper()
	st, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	p, err := st.Pod(pod)
	if err != nil {
		t.Fatal(err)
	}
	return p.Netns
}

// Affinity checks that clients keep their endpoint at all addresses of a service port while
// endpoints are added and removed. On VPP, clients may move once on such a change.
func Affinity(t *testing.T, l *lab.Lab) {
	s := newServiceLab(t, l)
	const number = 10
	const spec = "sessionAffinity: ClientIP\nsessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}"
	external := spec + fmt.Sprintf("\nexternalIPs: [198.51.100.%[1]d, \"2001:db8::a:%[1]d\"]", number)
	service := s.service(number, external, ready("near", "far")...)
	s.apply(t, service)
	// addresses returns the addresses that node1 translates for a client, or the cluster IP.
	addresses := func(from client, ipv6 bool) (list []netip.AddrPort) {
		cluster := netip.AddrPortFrom(clusterIP(number, ipv6), 80)
		more := []netip.AddrPort{at("198.51.100.", "2001:db8::a:", number, ipv6), netip.AddrPortFrom(s.nodeIP(ipv6), 30000+number)}
		switch {
		case from.node == "":
			return more
		case from.node != "node1" || s.vpp && !from.pod: // other nodes have their own affinity table; VPP sees several addresses of the host
			return []netip.AddrPort{cluster}
		}
		return append(more, cluster)
	}
	type key struct {
		who  string
		ipv6 bool
	}
	had := map[key]string{}
	stays := func(when string) {
		t.Helper()
		for _, from := range s.clients {
			for _, ipv6 := range []bool{false, true} {
				to := addresses(from, ipv6)
				for i := range 9 {
					h, err := s.ask(from.netns, "tcp", to[i%len(to)])
					name := h.Name
					switch k := (key{from.who, ipv6}); {
					case err != nil:
						t.Fatalf("%s, %s, to %v: %v", when, from.who, to[i%len(to)], err)
					case had[k] == "":
						had[k] = name
					case had[k] != name:
						t.Errorf("%s, %s, to %v: comes to %s, was with %s", when, from.who, to[i%len(to)], name, had[k])
					}
				}
			}
		}
	}
	changed := func() {
		t.Helper()
		s.settle(t)
		if s.vpp {
			clear(had)
		}
	}
	stays("at first")
	more := strings.TrimPrefix(s.service(number, external, ready("near", "far", "near2")...), service)
	labtest.Apply(t, l, more)
	changed()
	stays("with one more endpoint")
	labtest.Delete(t, l, more)
	changed()
	stays("without it")
	labtest.RequireQuietRestart(t, l, "node1")
	stays("after a restart of the agent")
	if s.vpp {
		return
	}
	const late = 11 // affinity is enabled while it has one endpoint
	s.apply(t, s.service(late, "", ready("near")...))
	labtest.Apply(t, l, s.service(late, spec, ready("near")...))
	s.settle(t)
	requireNear := func() {
		t.Helper()
		for _, from := range s.clients {
			if from.node != "" {
				if err := s.answers(from.netns, "tcp", netip.AddrPortFrom(clusterIP(late, false), 80), "near"); err != nil {
					t.Errorf("%s, a service with affinity since it had one endpoint: %v", from.who, err)
				}
			}
		}
	}
	requireNear()
	labtest.Apply(t, l, s.service(late, spec, ready("near", "far")...))
	t.Cleanup(func() {
		labtest.Delete(t, l, strings.TrimPrefix(s.service(late, spec, ready("near", "far")...), s.service(late, spec, ready("near")...)))
	})
	s.settle(t)
	requireNear()
}
