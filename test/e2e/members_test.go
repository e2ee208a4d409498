package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

// A cluster with three members of etcd works without one of them.
func TestThreeMembersOfEtcd(t *testing.T) {
	opts := options
	opts.Nodes, opts.WithoutProxy = 3, false
	s := newSiteWith(t, "m", opts)
	helm, chart := s.helm()
	var members []string
	for _, n := range s.Nodes() {
		s.kubectl("label", "node", n.Name, "node-role.kubernetes.io/control-plane=")
		members = append(members, fmt.Sprintf("{node: %s, ip: %s}", n.Name, s.nodeAddress(n.Name)))
	}
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("etcd: {members: ["+strings.Join(members, ", ")+"], quotaMiB: 1024}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(helm, "install", "contiv", chart, "-n", "kube-system", "--post-renderer", s.adapter, "--wait", "--timeout", "5m", "-f", values)
	s.kubectl("rollout", "status", "-n", "kube-system", "daemonset/contiv-agent", "--timeout=2m")
	s.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=1m")

	first, second := s.podOn("first", "node1"), s.podOn("second", "node2")
	streams := []*lab.Stream{s.stream(first, second), s.stream(second, first)}
	await.That(t, "one member, and no more, may be drained", func() error {
		if n := s.kubectl("get", "poddisruptionbudget", "-n", "kube-system", "contiv-etcd", "-o", "jsonpath={.status.disruptionsAllowed}"); n != "1" {
			return fmt.Errorf("%s may", n)
		}
		return nil
	})
	s.kubectl("scale", "statefulset", "-n", "kube-system", "contiv-etcd", "--replicas=2")
	await.That(t, "a member is away", func() error {
		if out := s.kubectl("get", "pods", "-n", "kube-system", "-l", "app=contiv-etcd", "-o", "name"); strings.Count(out, "\n") != 2 {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	s.reaches(first, s.podOn("while-one-is-away", "node3"))
	s.kubectl("scale", "statefulset", "-n", "kube-system", "contiv-etcd", "--replicas=3")
	s.kubectl("rollout", "status", "-n", "kube-system", "statefulset/contiv-etcd", "--timeout=2m")

	s.reaches(first, s.podOn("all-are-back", "node3"))
	// An upgrade keeps the chosen values.
	s.run(filepath.Join(options.BinDir, "contivctl"), "upgrade", "--post-renderer", s.adapter)
	out := s.kubectl("get", "statefulset", "-n", "kube-system", "contiv-etcd", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].args[0]}")
	if !strings.HasPrefix(out, "3 ") || strings.Count(out, "--member=") != 3 || !strings.Contains(out, "--quota-mib=1024") {
		t.Errorf("after an upgrade, etcd is %s", out)
	}
	for _, stream := range streams {
		report := stream.Stop()
		measured(t, "%s: %s", stream.Path, report)
		if report.Lost > 0 || report.Sent < 1000 {
			t.Errorf("%s: %s", stream.Path, report)
		}
	}
}

// nodeAddress is the InternalIP of a node.
func (s *site) nodeAddress(node string) string {
	s.t.Helper()
	return s.kubectl("get", "node", node, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
}
