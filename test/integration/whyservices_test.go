package integration

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const asked = `apiVersion: v1
kind: Service
metadata: {name: asked, namespace: default}
spec: {type: NodePort, externalTrafficPolicy: %s, clusterIP: 10.96.0.78, clusterIPs: [10.96.0.78], ports: [{protocol: TCP, port: 80, nodePort: 30078}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: asked-1, namespace: default, labels: {kubernetes.io/service-name: asked}}
addressType: IPv4
ports: [{name: '', protocol: TCP, port: %d}]
endpoints: [{addresses: [%s], nodeName: node2, conditions: {ready: true}}]
`

const askedPolicy = `apiVersion: v1
kind: Pod
metadata: {name: asked-server, namespace: default, labels: {app: asked-server}}
spec: {nodeName: node2, containers: [{name: c, image: none}]}
---
apiVersion: v1
kind: Pod
metadata: {name: asked-client, namespace: default, labels: {app: asked-client}}
spec: {nodeName: node1, containers: [{name: c, image: none}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: default, name: only-client}
spec: {podSelector: {matchLabels: {app: asked-server}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: asked-client}}}]}]}
`

func TestWhyServicesAreNotReached(t *testing.T) {
	l := require(t)
	client, server := pod(t, l, "asked-client", "node1"), pod(t, l, "asked-server", "node2")
	port := (&vswitchtest.Host{NetNS: lab.NetnsPath(server.Netns)}).Serve(t, server.Address.String())
	manifest := func(policy string) string { return fmt.Sprintf(asked, policy, port, server.Address) }
	labtest.Apply(t, l, manifest("Cluster"))
	t.Cleanup(func() { labtest.Delete(t, l, manifest("Cluster")) })
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Endpoint("node1")
	if err != nil {
		t.Fatal(err)
	}
	at1, at2 := st.Nodes[0].Address.Addr().String(), st.Nodes[1].Address.Addr().String()
	answers := func(verdict string, code int, finding string, args ...string) {
		t.Helper()
		await.That(t, fmt.Sprintf("why %v: %s, %s", args, verdict, finding), func() error {
			a, got := askWhy(t, l, args...)
			if got != code || a.Verdict != verdict || !strings.Contains(fmt.Sprint(a.Findings), finding) || finding == "" && len(a.Findings) > 0 {
				return fmt.Errorf("exit code %d: %+v", got, a)
			}
			return nil
		})
	}
	healthy := func() {
		t.Helper()
		answers(why.Reached, 0, "", client.Name, "svc/asked")
	}
	await.That(t, "the service is known", func() error {
		_, err := contivLab(t, l, "ctl", "services", "default/asked", "--node", "node1")
		return err
	})
	healthy()

	t.Run("kube-proxy has left its rules behind", func(t *testing.T) {
		command.In(t, node1.Netns, "nft 'table ip kube-proxy { chain services { counter; }; }'")
		undo := func() {
			_ = exec.Command("ip", "netns", "exec", node1.Netns, "nft", "delete", "table", "ip", "kube-proxy").Run()
		}
		t.Cleanup(undo)
		labtest.AwaitNote(t, l, binaries, "node1", "services on this node are left to kube-proxy since")
		answers(why.NotReached, 1, `because of nftables table "ip kube-proxy": if no kube-proxy runs here`, client.Name, "svc/asked")
		undo()
		healthy()
	})

	t.Run("a rule at a node port", func(t *testing.T) {
		answers(why.NotProbed, 2, "", "203.0.113.77", "svc/asked")
		command.In(t, node1.Netns, chain("inet", "filter hook prerouting", "tcp dport 30078 drop"))
		t.Cleanup(func() { command.In(t, node1.Netns, "nft delete table inet foreign") })
		a, code := askWhy(t, l, "203.0.113.77", "svc/asked")
		if code != 1 || !strings.Contains(fmt.Sprint(a.Findings), "packets from 203.0.113.77 to "+at1+" are dropped: a rule of chain theirs") || !strings.Contains(a.Untried, "nc -vz "+at2+" 30078") {
			t.Errorf("exit code %d: %+v", code, a)
		}
	})

	t.Run("a translated source", func(t *testing.T) {
		command.In(t, node1.Netns, chain("ip", "nat hook postrouting", "ip saddr 10.1.0.0/16 masquerade"))
		undone := false
		undo := func() {
			if !undone {
				undone = true
				command.In(t, node1.Netns, "nft delete table ip foreign")
			}
		}
		t.Cleanup(undo)
		const want = "get another source: a rule of chain theirs in table ip foreign translates it"
		answers(why.Reached, 1, want, client.Name, "svc/asked")
		answers(why.Reached, 1, want, client.Name, server.Name)
		awaitStatus(t, l, "node1", "degraded", "network", want)
		undo()
		awaitStatus(t, l, "node1", "healthy", "", "")
		healthy()
	})

	t.Run("no route", func(t *testing.T) {
		route, err := exec.Command("ip", "-n", node1.Netns, "route", "show", "default").Output()
		if err != nil || len(route) == 0 {
			t.Fatalf("%v: %s", err, route)
		}
		answers(why.Reached, 0, "", "node1", "svc/asked")
		command.In(t, node1.Netns, "ip route del default")
		undone := false
		undo := func() {
			if !undone {
				undone = true
				command.In(t, node1.Netns, "ip route add "+string(route))
			}
		}
		t.Cleanup(undo)
		answers(why.NotReached, 1, "its own processes have no route to 10.96.0.78", "node1", "svc/asked")
		undo()
		answers(why.Reached, 0, "", "node1", "svc/asked")
	})

	// A policy allows the client, which arrives with its node's address.
	t.Run("a node port of another node", func(t *testing.T) {
		labtest.Apply(t, l, askedPolicy)
		healthy()
		for _, policy := range []string{"Cluster", "Local"} {
			labtest.Apply(t, l, manifest(policy))
			answers(why.NotReached, 1, fmt.Sprintf("no rule allows port %d/tcp with %s", port, at1), client.Name, at2, "30078")
		}
		labtest.Delete(t, l, askedPolicy[strings.LastIndex(askedPolicy, "---\n")+4:])
		answers(why.Reached, 0, "", client.Name, at2, "30078")
	})
}
