package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	corev1 "k8s.io/api/core/v1"
)

// How the nodes became ready, by name; nil for a kept cluster.
var becameReady map[string]*readyNode

// readyNode is the state of a node before and after the installation of Contiv.
type readyNode struct {
	// Before: the node's own message, and CNI's STATUS.
	problem string
	status  error
	// After: the end of the agent's first resync, the time of the CNI configuration, and when the
	// node became ready, in whole seconds.
	resync, conflist, ready time.Time
}

// noteBefore is called before Contiv is installed, noteAfter afterwards.
func noteBefore(ctx context.Context) error {
	// Kubelet reports it with the first status after the registration.
	if _, err := cluster.Kubectl(ctx, "wait", "node", "--all", "--for=condition=Ready=false", "--timeout=30s"); err != nil {
		return err
	}
	becameReady = map[string]*readyNode{}
	return eachNode(ctx, func(name string, ready corev1.NodeCondition) error {
		becameReady[name] = &readyNode{problem: ready.Message, status: cluster.CNIStatus(ctx, name)}
		return nil
	})
}

func noteAfter(ctx context.Context) error {
	return eachNode(ctx, func(name string, ready corev1.NodeCondition) error {
		txns, err := cluster.Agent(name).Transactions(ctx, time.Time{})
		if err != nil || len(txns) == 0 {
			return fmt.Errorf("no transactions: %w", err)
		}
		conflist, err := os.Stat(cluster.Conflist(name))
		if err != nil {
			return err
		}
		n := becameReady[name]
		n.resync, n.conflist, n.ready = txns[0].Stop, conflist.ModTime(), ready.LastTransitionTime.Time
		return nil
	})
}

// eachNode calls fn for all nodes with their condition Ready.
func eachNode(ctx context.Context, fn func(name string, ready corev1.NodeCondition) error) error {
	var nodes corev1.NodeList
	if err := cluster.Get(ctx, &nodes, "nodes"); err != nil {
		return err
	}
	if len(nodes.Items) != len(cluster.Nodes()) {
		return fmt.Errorf("found %d nodes, want %d", len(nodes.Items), len(cluster.Nodes()))
	}
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type != corev1.NodeReady {
				continue
			}
			if err := fn(n.Name, c); err != nil {
				return fmt.Errorf("node %s: %w", n.Name, err)
			}
		}
	}
	return nil
}

// first resync ──> STATUS succeeds ──> CNI configuration ──> runtime's network is ready ──> node is ready
func TestNodesBecomeReadyThroughContivsCNI(t *testing.T) {
	needCluster(t)
	for name, n := range becameReady {
		if !strings.Contains(n.problem, "cni plugin not initialized") || n.status == nil || !strings.Contains(n.status.Error(), `"code": 50`) {
			t.Errorf("%s before Contiv: %q; %v", name, n.problem, n.status)
		}
		if n.conflist.Before(n.resync) || n.ready.Before(n.conflist.Truncate(time.Second)) {
			t.Errorf("%s: first resync %s, CNI configuration %s, ready %s: not in this order", name, n.resync, n.conflist, n.ready)
		}
	}
	err := eachNode(t.Context(), func(name string, ready corev1.NodeCondition) error {
		if ready.Status != corev1.ConditionTrue {
			return errors.New(ready.Message)
		}
		return cluster.CNIStatus(t.Context(), name)
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRemovedCNIConfigurationIsPutBack(t *testing.T) {
	needCluster(t)
	path := cluster.Conflist("node2")
	before, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	await.That(t, "the configuration is back", func() error {
		after, err := os.ReadFile(path)
		if err == nil && string(after) != string(before) {
			err = fmt.Errorf("it is %s", after)
		}
		return err
	})
	checkReachable(t, newNamespace(t, "putback").pod("web", "node2"))
}
