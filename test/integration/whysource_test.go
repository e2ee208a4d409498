package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Packets of a node's own processes have the source address of their route. why evaluates policies
// with that address, as the data plane does.
func TestWhyJudgesTheSourceOfThePacket(t *testing.T) {
	require(t)
	l := labWith(t, "")
	template := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}}
	added := labtest.AddPods(t, l, lab.PodSpec{Name: "a", Node: "node1", Template: template})
	serve(t, added[0].Netns, "8080", "a")
	nodes, err := l.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	a := added[0].Endpoint()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	const (
		portRule     = "ip addr add 192.168.30.77/32 dev c-vxlanBVI; ip route add 10.1.1.0/24 via 192.168.30.1 dev c-vxlanBVI src 192.168.30.77 table 77; ip rule add pref 7 lookup 77 ipproto tcp"
		undoPortRule = "ip rule del pref 7; ip route flush table 77; ip addr del 192.168.30.77/32 dev c-vxlanBVI"
	)
	for _, test := range []struct {
		name, cidr string
		prepare    string // on node2
		source     string // the expected source address
		arrive     bool
		undo       string
	}{
		{"the node's address is allowed", "192.168.16.0/24", "", "192.168.30.2", false, ""},
		{"the address on the overlay is allowed", "192.168.30.0/24", "", "192.168.30.2", true, ""},
		{"a route with another source", "192.168.30.0/24", "ip route replace 10.1.1.0/25 dev eth0 via 192.168.16.1 src 192.168.16.2", "192.168.16.2", false, "ip route del 10.1.1.0/25"},
		{"a policy rule for the port", "192.168.30.2/32", portRule + " dport 8080", "192.168.30.77", false, undoPortRule},
		{"a policy rule for another port", "192.168.30.2/32", portRule + " dport 81", "192.168.30.2", true, undoPortRule},
		{"a policy rule for the node's address", "192.168.30.2/32", strings.Replace(portRule, "ipproto tcp", "from 192.168.30.2", 1), "192.168.30.2", true, undoPortRule},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: from-nodes}\nspec: {podSelector: {matchLabels: {app: a}}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: %s}}]}]}\n", test.cidr)
			if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Apply(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			if test.prepare != "" {
				command.In(t, nodes[1].Netns, test.prepare)
				defer command.In(t, nodes[1].Netns, test.undo)
			}
			await.That(t, "packets and verdict", func() error {
				err := exec.CommandContext(t.Context(), "ip", "netns", "exec", nodes[1].Netns, "bash", "-c", fmt.Sprintf("exec timeout 1 bash -c 'echo > /dev/tcp/%v/8080'", a.Address)).Run()
				if arrived := err == nil; arrived != test.arrive {
					return fmt.Errorf("packets arrive: %v", arrived)
				}
				answer, code := askWhy(t, l, "node2", "a", "8080")
				if answer.From.Address != test.source {
					return fmt.Errorf("judged %v, want %s", answer.From, test.source)
				}
				if test.prepare == "" && (code == 0) != test.arrive {
					return fmt.Errorf("exit code %d: %+v", code, answer)
				}
				if !test.arrive && answer.Verdict != why.NotReached {
					return errors.New("verdict " + answer.Verdict)
				}
				return nil
			})
		})
	}
}
