package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/policy/denials"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestPolicies(t *testing.T) {
	require(t)
	opts := options("po")
	opts.ContivConfig, opts.ServiceConfig = policylab.Config, policylab.ServiceConfig
	l := labtest.Up(t, opts)
	t.Run("network policies", func(t *testing.T) { policylab.NetworkPolicies(t, l, "node1") })
	t.Run("cluster network policies", func(t *testing.T) { policylab.ClusterNetworkPolicies(t, l, "node1") })
	t.Run("semantics", func(t *testing.T) { policylab.Semantics(t, l) })
	t.Run("random tables", func(t *testing.T) { policylab.RandomTables(t, l) })
	t.Run("new pods are never reachable without their policies", func(t *testing.T) { policylab.NewPods(t, l) })
	t.Run("disruptions", func(t *testing.T) { policylab.Disruptions(t, l) })
	t.Run("why", func(t *testing.T) { policylab.Why(t, l, binaries) })
}

// contivctl and etcd report the state of a policy that selects pods.
func TestPoliciesAreRealised(t *testing.T) {
	l := require(t)
	web := pod(t, l, "realised-web", "node1")
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: default, name: realised}\nspec: {podSelector: {}, ingress: [{}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	removed := false
	remove := func() {
		if !removed {
			removed = true
			if _, err := l.Delete(t.Context(), file); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(remove)
	etcd, err := l.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	published := func(node string) (s *feedback.PolicyStatus, err error) {
		answer, err := etcd.Get(t.Context(), models.NodePrefix(node)+models.PolicyStatusPrefix+"default/realised")
		if err != nil || len(answer.Kvs) == 0 {
			return nil, err
		}
		s = &feedback.PolicyStatus{}
		return s, protojson.Unmarshal(answer.Kvs[0].Value, s)
	}
	await.That(t, "all nodes have realised the policy", func() error {
		out, err := exec.Command(filepath.Join(binaries, "contivctl"), "--config", l.CtlConfig(), "policies", "default/realised", "-o", "json").Output()
		var nodes []struct {
			Node   string
			Result policy.Report
		}
		if err != nil || json.Unmarshal(out, &nodes) != nil || len(nodes) != 2 {
			return fmt.Errorf("%v: %s", err, out)
		}
		for _, n := range nodes {
			want := map[string]string{"node1": "[default/" + web.Name + "]", "node2": "[]"}[n.Node]
			if p := n.Result.Policies[0]; !p.Realised || p.Txn == nil || p.Since == nil || fmt.Sprint(p.Pods) != want {
				return fmt.Errorf("%s: %+v", n.Node, p)
			}
		}
		s, err := published("node1")
		if err != nil || s == nil || !s.GetRealised() || s.Transaction == nil || s.GetTime() == nil {
			return fmt.Errorf("in etcd: %v, %v", s, err)
		}
		if s, err := published("node2"); err != nil || s != nil {
			return fmt.Errorf("in etcd, where the policy selects no pods: %v, %v", s, err)
		}
		return nil
	})
	out, err := exec.Command(filepath.Join(binaries, "contivctl"), "--config", l.CtlConfig(), "policies").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "default/realised") || !strings.Contains(string(out), "2/2") {
		t.Errorf("%v: %s", err, out)
	}
	remove()
	await.That(t, "it is not reported any more", func() error {
		if s, err := published("node1"); err != nil || s != nil {
			return fmt.Errorf("%v, %v", s, err)
		}
		return nil
	})
}

// Denied traffic is counted and listed with names and reasons, once and live.
func TestDenials(t *testing.T) {
	l := require(t)
	client, server := pod(t, l, "denied-client", "node1"), pod(t, l, "denied-server", "node2")
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: default, name: denying}\nspec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.Delete(context.Background(), file) })
	contivctl := filepath.Join(binaries, "contivctl")
	following := exec.CommandContext(t.Context(), contivctl, "--config", l.CtlConfig(), "denials", "-f", "-o", "json")
	out, err := following.StdoutPipe()
	if err == nil {
		err = following.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = following.Process.Kill(); _ = following.Wait() })
	live := make(chan denials.Event, 1000)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var line struct{ Event denials.Event }
			if json.Unmarshal(lines.Bytes(), &line) == nil {
				live <- line.Event
			}
		}
	}()
	knock := func() {
		_ = labtest.Inside(client.Netns, func() error {
			c, err := net.Dial("udp", net.JoinHostPort(server.Address.String(), "5353"))
			if err == nil {
				_, err = c.Write([]byte("x"))
				c.Close()
			}
			return err
		})
	}
	await.That(t, "the packet is reported live", func() error {
		knock()
		for {
			select {
			case e := <-live:
				if e.From == "default/"+client.Name && e.To == "default/"+server.Name && e.Port == 5353 && e.Protocol == 17 &&
					strings.Contains(e.Why, "is isolated by NetworkPolicy default/denying, and no rule allows port 5353/udp") {
					return nil
				}
				return fmt.Errorf("%+v", e)
			default:
				return errors.New("nothing")
			}
		}
	})
	await.That(t, "it is counted", func() error {
		out, err := exec.Command(contivctl, "--config", l.CtlConfig(), "denials", "--node", "node2", "-o", "json").Output()
		var nodes []struct{ Result denials.Report }
		if err != nil || json.Unmarshal(out, &nodes) != nil || len(nodes) != 1 {
			return fmt.Errorf("%v: %s", err, out)
		}
		for _, c := range nodes[0].Result.Counts {
			if c.Pod == "default/"+server.Name && c.Direction == "ingress" && c.Isolated && fmt.Sprint(c.Policies) == "[default/denying]" && c.Packets > 0 {
				return nil
			}
		}
		return fmt.Errorf("%+v", nodes[0].Result.Counts)
	})
	table, err := exec.Command(contivctl, "--config", l.CtlConfig(), "denials").CombinedOutput()
	if err != nil || !strings.Contains(string(table), "isolated by default/denying") || !strings.Contains(string(table), "5353/udp") {
		t.Errorf("%v: %s", err, table)
	}
}
