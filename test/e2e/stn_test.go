package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

// stnVSwitch is VPP on single-NIC nodes, among the values of E2E_VSWITCH.
const stnVSwitch = "vpp-stn"

// parseVSwitches reads E2E_VSWITCH.
func parseVSwitches(text string) (vswitches []string, singleNIC bool, err error) {
	for v := range strings.SplitSeq(text, ",") {
		if v == stnVSwitch {
			v, singleNIC = lab.VPPVSwitch, true
		} else if v == lab.VPPVSwitch && strings.Contains(text, stnVSwitch) {
			return nil, false, fmt.Errorf("%s: nodes with VPP have all one NIC, or all two", text)
		}
		vswitches = append(vswitches, v)
	}
	return vswitches, singleNIC, nil
}

func TestVSwitchesOfTheNodesAreParsed(t *testing.T) {
	for text, want := range map[string]string{
		"kernel":         "[kernel] false <nil>",
		"kernel,vpp":     "[kernel vpp] false <nil>",
		"vpp-stn":        "[vpp] true <nil>",
		"vpp-stn,kernel": "[vpp kernel] true <nil>",
		"vpp,vpp-stn":    "[] false vpp,vpp-stn: nodes with VPP have all one NIC, or all two",
	} {
		vswitches, singleNIC, err := parseVSwitches(text)
		if got := fmt.Sprint(vswitches, singleNIC, err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// awaitNIC waits for the holder of a node's only NIC; "": contiv-stn has none.
func awaitNIC(t *testing.T, node string, want journal.Holder) {
	t.Helper()
	await.That(t, fmt.Sprintf("the NIC of %s is with %q", node, want), func() error {
		nics, err := cluster.StolenNICs(node)
		if err != nil {
			return err
		}
		if got := journal.Holder(""); len(nics) == 1 {
			got = nics[0].Holder
			if got != want {
				return fmt.Errorf("it is with %q: %s", got, nics[0].Reason)
			}
		} else if len(nics) > 1 || got != want {
			return fmt.Errorf("%d NICs are stolen", len(nics))
		}
		return nil
	})
}

// runVPPOn changes the node selector of VPP's DaemonSet.
func runVPPOn(ctx context.Context, label string) error {
	_, err := cluster.Kubectl(ctx, "patch", "-n", "kube-system", "daemonset/contiv-vpp", "--type=merge", "-p",
		fmt.Sprintf(`{"spec": {"template": {"spec": {"nodeSelector": {"contivpp.io/vswitch": %q}}}}}`, label))
	return err
}

// A single-NIC node is reachable with VPP, without it, and with the next VPP, and so are its pods
// while VPP runs.
func TestVPPBorrowsTheOnlyNICOfItsNode(t *testing.T) {
	needCluster(t)
	var nodes []string
	for _, n := range cluster.Nodes() {
		if n.SingleNIC {
			nodes = append(nodes, n.Name)
		}
	}
	if len(nodes) == 0 {
		t.Skip("needs a node with a single NIC and VPP: make e2e E2E_VSWITCH=vpp-stn VPP_BIN=/usr/bin/vpp")
	}
	st, err := cluster.Lab().State()
	if err != nil {
		t.Fatal(err)
	}
	outside, err := st.Endpoint(lab.OutsideName)
	if err != nil {
		t.Fatal(err)
	}
	n := newNamespace(t, "stn")
	first, second := n.pair()
	pods := []corev1.Pod{first, second}
	var streams []*lab.Stream
	for _, node := range nodes {
		stream, err := lab.StartStream(outside, nodeEndpoint(t, node), 5*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		stop := stream.Stop
		streams = append(streams, stream)
		t.Cleanup(func() {
			report := stop()
			measured(t, "%s: %s", stream.Path, report)
			if report.LongestGap > 5*time.Second {
				t.Errorf("%s: no answer for %s", stream.Path, report.LongestGap)
			}
		})
	}
	nodesAnswer := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		for _, s := range streams {
			if err := s.Await(ctx, 50); err != nil {
				t.Fatalf("%s: %s: %v", when, s.Path, err)
			}
		}
	}
	onVPP := func(when string) {
		t.Helper()
		for _, node := range nodes {
			awaitNIC(t, node, journal.VSwitch)
			routes, err := cluster.Lab().Exec(t.Context(), node, "ip", "-4", "route", "show", "dev", "eth0")
			if err != nil || strings.TrimSpace(routes) != "" {
				t.Errorf("%s: the NIC of %s has the routes %q, %v, although VPP has it", when, node, routes, err)
			}
		}
		nodesAnswer(when)
		await.That(t, when+" all pods are reachable", func() (err error) {
			for _, from := range pods {
				for _, to := range pods {
					err = errors.Join(err, fetch(t, endpoint(t, from), to))
				}
				for _, node := range nodes {
					err = errors.Join(err, fetch(t, nodeEndpoint(t, node), from))
				}
			}
			return err
		})
	}
	onVPP("at first")

	t.Cleanup(func() {
		if t.Failed() {
			if err := runVPPOn(context.Background(), "vpp"); err != nil {
				t.Error(err)
			}
		}
	})
	if err := runVPPOn(t.Context(), "none"); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		awaitNIC(t, node, "")
		routes, err := cluster.Lab().Exec(t.Context(), node, "ip", "-4", "route", "show", "dev", "eth0")
		if err != nil || !slices.Contains(strings.Fields(routes), "default") {
			t.Errorf("without VPP the NIC of %s has the routes %q, %v", node, routes, err)
		}
	}
	nodesAnswer("without VPP")

	if err := runVPPOn(t.Context(), "vpp"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "rollout", "status", "-n", "kube-system", "daemonset/contiv-vpp", "--timeout=2m")
	onVPP("with the next VPP")
}
