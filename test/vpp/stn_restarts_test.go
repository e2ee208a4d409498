package vpp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
)

const allowedManifest = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allowed, namespace: default}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:
  - ports: [{protocol: TCP, port: %[1]d}, {protocol: UDP, port: %[1]d}, {protocol: TCP, port: %[2]d}]
`

// On a node with a shared NIC and a host NIC, with services, host ports and policies, restarts of
// the agent change nothing and do not interrupt traffic. A restarted VPP gets its whole
// configuration back, even if contiv-stn ends at the same time.
func TestSingleNICRestarts(t *testing.T) {
	m := upManagedNIC(t)
	const port, echoPort = 8080, 8090
	host := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Ports: []corev1.ContainerPort{
		{HostPort: managedHostPort, ContainerPort: port, Protocol: corev1.ProtocolTCP}, {HostPort: managedHostPort, ContainerPort: port, Protocol: corev1.ProtocolUDP},
		{HostIP: m.own[0].String(), HostPort: managedHostPort + 1, ContainerPort: port, Protocol: corev1.ProtocolTCP},
	}}}}}
	pods := addPods(t, m.Lab, lab.PodSpec{Name: "a", Node: "node1", Template: host}, lab.PodSpec{Name: "b", Node: "node1"}, lab.PodSpec{Name: "c", Node: "node2"})
	for _, p := range pods {
		labtest.TellPeers(t, p.Netns, port)
	}
	addrs := globalAddresses(t, pods[0])
	for _, addr := range addrs {
		labtest.Echo(t, pods[0].Netns, netip.AddrPortFrom(addr, echoPort).String())
	}
	local := served{name: "local", number: 24, policy: "Cluster", port: port, node: "node1", addrs: addrs}
	far := served{name: "far", number: 21, policy: "Cluster", port: port, node: "node2", addrs: globalAddresses(t, pods[2])}
	keeps, echo := local, local
	keeps.name, keeps.number, keeps.policy = "keeps", 23, "Local"
	echo.name, echo.number, echo.port = "echo", 26, echoPort
	m.services = []served{local, far, keeps}
	labtest.Apply(t, m.Lab, local.everywhere()+far.everywhere()+keeps.everywhere()+echo.everywhere()+fmt.Sprintf(allowedManifest, port, echoPort))
	labtest.RequireQuiet(t, m.Lab)
	m.clients = []managedClient{
		{"a client by the host's card", m.client}, {"a client by VPP's card", m.outside.Netns},
		{"a process of the node", m.node.Netns}, {"a pod of the node", pods[1].Netns}, {"a pod of another node", pods[2].Netns},
	}
	await.That(t, "all reach all", m.asks) // connections are refused until the agent has processed the objects

	node6, outside6 := m.node, m.outside
	node6.Address, outside6.Address = m.shared[1], netip.MustParseAddr("fd20::10")
	pairs := [][2]lab.Endpoint{{m.outside, m.node}, {m.node, m.outside}, {outside6, node6}, {node6, outside6}}
	connect := func() {
		m.connections = []*connection{dial(t, m.outside, m.node), dial(t, node6, outside6)}
		for _, from := range m.clients {
			for _, ipv6 := range []bool{false, true} {
				to := echo.nodePort(m.shared[0])
				if ipv6 {
					to = echo.nodePort(m.shared[1])
				}
				if from.netns == pods[1].Netns || from.netns == m.node.Netns {
					to = echo.clusterIP(ipv6)
				}
				c, err := labtest.Dial(from.netns, "tcp", to)
				if err != nil {
					t.Fatalf("%s, to %s: %v", from.who, to, err)
				}
				t.Cleanup(func() { c.Close() })
				m.connections = append(m.connections, &connection{from.who + " → " + to.String(), c})
			}
		}
	}
	connect()

	child := func(program string) lab.Process {
		found := lab.ProcessesIn(m.node.Netns, program)
		if len(found) != 1 {
			t.Fatalf("%d processes %s", len(found), program)
		}
		return found[0]
	}
	ready := func(since time.Time) {
		await.That(t, "the agent is ready", func() error {
			if err := m.Agent("node1").Ready(t.Context()); err != nil {
				return err
			}
			txns, err := m.Agent("node1").Transactions(t.Context(), since)
			if err == nil && len(txns) == 0 {
				err = errors.New("no transaction since")
			}
			return err
		})
	}
	before := m.dump()
	for _, test := range []struct {
		name string
		do   func(begun time.Time)
	}{
		{"agent restarted", func(time.Time) { m.must(m.RestartAgent(t.Context(), "node1")) }},
		{"agent killed", func(begun time.Time) { m.must(child("contiv-agent").Kill()); ready(begun) }},
		{"agent killed while etcd is down", func(begun time.Time) { // the agent waits for etcd longer than contiv-stn waits for the agent
			m.must(errors.Join(m.StopEtcd(t.Context()), child("contiv-agent").Kill()))
			ready(begun)
			m.must(m.StartEtcd(t.Context()))
		}},
		{"agent and contiv-stn killed", func(begun time.Time) {
			agent := child("contiv-agent")
			m.must(errors.Join(m.KillSTN(t.Context(), "node1"), agent.Kill(), m.StartSTN(t.Context(), "node1")))
			ready(begun)
		}},
	} {
		since, begun := m.holder(journal.VSwitch).Since, time.Now()
		gap := m.watched(test.name, func() { test.do(begun) }, pairs...)
		if gap > 500*time.Millisecond {
			t.Errorf("%s: nothing passed for %v", test.name, gap)
		}
		if e := m.holder(journal.VSwitch); !strings.Contains(test.name, "contiv-stn") && !e.Since.Equal(since) {
			t.Errorf("%s: VPP, which went on, lost the card, and has had it again since %v: %s", test.name, e.Since, e.Reason)
		}
		txns, err := m.Agent("node1").Transactions(t.Context(), begun)
		m.must(err)
		if len(txns) == 0 {
			t.Errorf("%s: no transaction", test.name)
		}
		for _, op := range lab.Operations(txns...) {
			t.Errorf("%s: the agent executed %v %s: %v → %v, error %v", test.name, op.Operation, op.Key, op.PrevValue, op.NewValue, op.NewErr)
		}
		if err := m.asks(); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		m.same(test.name, before)
	}

	for _, test := range []struct {
		name string
		do   func()
	}{
		{"VPP killed", func() { m.must(child("vpp_main").Kill()) }},
		{"VPP and contiv-stn killed", func() {
			vpp := child("vpp_main")
			m.must(errors.Join(m.KillSTN(t.Context(), "node1"), vpp.Kill(), m.StartSTN(t.Context(), "node1")))
		}},
		{"VPP, agent and contiv-stn killed", func() {
			vpp, agent := child("vpp_main"), child("contiv-agent")
			m.must(errors.Join(m.KillSTN(t.Context(), "node1"), agent.Kill(), vpp.Kill(), m.StartSTN(t.Context(), "node1")))
		}},
	} {
		m.connections = m.connections[:2] // VPP has lost its sessions
		since, begun := m.holder(journal.VSwitch).Since, time.Now()
		gap := m.watched(test.name, func() {
			test.do()
			await.That(t, "VPP has the card again", func() error {
				if e := m.holder(journal.VSwitch); e.Since.Equal(since) {
					return errors.New("not yet")
				}
				return nil
			})
			t.Logf("%s: VPP had the card again after %v", test.name, time.Since(begun))
			ready(begun)
			t.Logf("%s: the agent was ready after %v", test.name, time.Since(begun))
			await.That(t, "all reach all", m.asks)
			t.Logf("%s: all was well after %v", test.name, time.Since(begun))
		}, pairs...)
		if gap > 5*time.Second {
			t.Errorf("%s: nothing passed for %v", test.name, gap)
		}
		labtest.RequireQuiet(t, m.Lab)
		m.same(test.name, before)
		connect()
	}
}

var drawn = regexp.MustCompile(`("type":"VXLAN_TUNNEL".*)"phys_address":"[^"]*",`)

func (s *singleNIC) dump() map[string]string {
	s.t.Helper()
	var records []struct {
		Key   string
		Value json.RawMessage
	}
	s.must(s.Agent("node1").Get(s.t.Context(), "/scheduler/dump?view=SB&key-prefix=config/", &records))
	all := map[string]string{}
	for _, r := range records {
		all[r.Key] = drawn.ReplaceAllString(string(r.Value), "$1")
	}
	if len(all) == 0 {
		s.t.Fatal("nothing is read back")
	}
	return all
}

func (s *singleNIC) same(what string, before map[string]string) {
	s.t.Helper()
	now := s.dump()
	for key, value := range before {
		if now[key] != value {
			s.t.Errorf("%s: %s is %s, and was %s", what, key, now[key], value)
		}
	}
	for key, value := range now {
		if _, had := before[key]; !had {
			s.t.Errorf("%s: %s is new: %s", what, key, value)
		}
	}
}
