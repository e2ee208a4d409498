package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	policyprocessor "github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
)

// memoryLimit is that of the agent in deploy/chart/values.yaml, vswitch.resources.
const memoryLimit = 2 << 30

// wantMemory fails if an agent has used more bytes than a bound, with the largest input of a kind.
func wantMemory(t *testing.T, l *lab.Lab, input string, bound uint64) {
	t.Helper()
	for _, node := range []string{"node1", "node2"} {
		used := peakMemory(t, l, node)
		t.Logf("%s: the agent of %s has used %d MiB", input, node, used>>20)
		if used > bound {
			t.Errorf("%s: the agent of %s has used %d MiB, want less than %d", input, node, used>>20, bound>>20)
		}
	}
}

func peakMemory(t *testing.T, l *lab.Lab, node string) (bytes uint64) {
	t.Helper()
	state, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", state.Processes["agent/"+node].PID))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes << 10
}

// wideService has a cluster IP and external addresses with the given number of ports, each with 6
// endpoints.
func wideService(n, addresses, ports int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Service\nmetadata: {name: wide%[1]d, namespace: default}\nspec:\n  clusterIP: 10.96.100.%[1]d\n  clusterIPs: [10.96.100.%[1]d]\n  externalIPs: [", n)
	for i := range addresses {
		fmt.Fprintf(&b, "198.18.%d.%d, ", n, i)
	}
	b.WriteString("]\n  ports: [")
	for i := range ports {
		fmt.Fprintf(&b, "{name: p%d, port: %d}, ", i, i+1)
	}
	fmt.Fprintf(&b, "]\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: wide%[1]d-1, namespace: default, labels: {kubernetes.io/service-name: wide%[1]d}}\naddressType: IPv4\nports: [", n)
	for i := range ports {
		fmt.Fprintf(&b, "{name: p%d, port: %d}, ", i, i+1)
	}
	b.WriteString("]\nendpoints: [")
	for i := range 6 {
		fmt.Fprintf(&b, "{addresses: [10.1.2.%d], conditions: {ready: true}}, ", 10+i)
	}
	b.WriteString("]\n---\n")
	return b.String()
}

const (
	narrowPolicies = 500
	largePolicies  = policyprocessor.MaxNodeParts / configurator.MaxParts
)

// widePolicies uses the limits of a node's policies: 500 policies have 1,000 peers each, and the
// others have networks until one does not fit.
func widePolicies() (pods, policies string) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata: {name: peer%[1]d, namespace: default, uid: peer%[1]d, labels: {peer: p%[1]d}}\nspec: {nodeName: elsewhere, containers: [{name: c, image: i}]}\nstatus: {phase: Running, podIP: 10.1.%[2]d.%[3]d, podIPs: [{ip: 10.1.%[2]d.%[3]d}]}\n---\n", i, 100+i/200, 2+i%200)
	}
	pods = b.String()
	b.Reset()
	begin := func(name, subject string) {
		fmt.Fprintf(&b, "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: %s, namespace: default}\nspec:\n  podSelector: {matchLabels: {app: %s}}\n  policyTypes: [Ingress]\n  ingress:\n  - from:\n", name, subject)
	}
	for i := range narrowPolicies {
		begin(fmt.Sprint("peers", i), "closed")
		fmt.Fprintf(&b, "    - podSelector: {matchExpressions: [{key: peer, operator: Exists}, {key: app, operator: NotIn, values: [x%d]}]}\n", i)
	}
	for i := range largePolicies {
		begin(fmt.Sprint("networks", i), "closed")
		for j := range configurator.MaxParts - 1 {
			fmt.Fprintf(&b, "    - ipBlock: {cidr: 11.%d.%d.%d/32}\n", i, j>>7, j&127*2)
		}
	}
	return pods, b.String()
}

// The largest permitted input uses at most half of an agent's memory. Objects beyond the limits
// fail alone, while pods start and small services work.
func TestTheLargestInput(t *testing.T) {
	require(t)
	opts := options("lg")
	opts.ContivConfig, opts.ServiceConfig = policylab.Config, policylab.ServiceConfig
	l := &objectsLab{Lab: labtest.Up(t, opts)}
	labtest.AwaitAddresses(t, l.Lab)
	l.server, l.near = l.add(t, "server", "node1"), l.add(t, "near", "node1")
	l.port = l.host(l.server.Netns).Serve(t, l.server.Address.String())
	small := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: small, namespace: default}
spec: {clusterIP: 10.96.0.70, clusterIPs: [10.96.0.70], ports: [{name: p, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: small-1, namespace: default, labels: {kubernetes.io/service-name: small}}
addressType: IPv4
ports: [{name: p, port: %d}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
---
`, l.port, l.server.Address)

	var wide strings.Builder
	for n := range processor.MaxNodeFrontends / processor.MaxServiceFrontends {
		wide.WriteString(wideService(n, 63, 64))
	}
	l.keep(t, "services", wide.String()+small+wideService(200, 250, 2000))
	l.reaches(t, "a small service in addition to the largest", l.near.Netns, "10.96.0.70", 80)
	l.statusTells(t, true, "service default/wide200 is not translated: its addresses and ports come to 502000 frontends, and a service may have 4096",
		"and does not fit: all services of the node have 40961 frontends")
	wantMemory(t, l.Lab, "services", memoryLimit/2)
	l.add(t, "closed", "node1")
	pods, policies := widePolicies()
	l.keep(t, "peers", pods)
	l.keep(t, "policies", policies)
	l.statusTells(t, true, "policy default/networks7 is invalid in part: the policy has 16384 peers, networks, exceptions and ports, and the policies of the node have no room for it")
	l.realises(t, narrowPolicies+largePolicies-1)
	l.add(t, "later", "node1")
	for n := range processor.MaxNodeFrontends / processor.MaxServiceFrontends {
		if n != 9 { // the last one by name exceeds the limit
			l.reports(t, fmt.Sprintf("default/wide%d", n), 64*64)
		}
	}
	wantMemory(t, l.Lab, "services and policies", memoryLimit/2)
}

// realises waits until node1 has realised that number of policies.
func (l *objectsLab) realises(t *testing.T, policies int) {
	t.Helper()
	await.That(t, "the agent realises policies", func() error {
		var report policy.Report
		if err := l.Agent("node1").Get(t.Context(), policy.URL, &report); err != nil {
			return err
		}
		n := 0
		for _, p := range report.Policies {
			if p.Realised {
				n++
			}
		}
		if n != policies {
			return fmt.Errorf("%d of %d policies are realised, want %d", n, len(report.Policies), policies)
		}
		return nil
	})
}

// reports waits until node1 reports a service with that number of frontends.
func (l *objectsLab) reports(t *testing.T, name string, frontends int) {
	t.Helper()
	await.That(t, "the agent translates "+name, func() error {
		var report service.Report
		if err := l.Agent("node1").Get(t.Context(), service.URL+"?service="+name, &report); err != nil {
			return err
		}
		if n := len(report.Services[0].Frontends); n != frontends {
			return fmt.Errorf("%d frontends", n)
		}
		for _, v := range report.Services[0].Values {
			if v.State != "CONFIGURED" {
				return fmt.Errorf("%s is %s: %s", v.Key, v.State, v.Error)
			}
		}
		return nil
	})
}
