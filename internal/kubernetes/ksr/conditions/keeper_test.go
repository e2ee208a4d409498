package conditions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi/kubeapitest"
	"github.com/contiv/contiv/models"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

type cluster struct {
	t    *testing.T
	etcd *memory.Store
	api  *fake.Clientset
	told int
}

func start(t *testing.T, conditions ...corev1.NodeCondition) *cluster {
	t.Helper()
	c := &cluster{t: t, etcd: memory.New()}
	c.api = fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Conditions: conditions}})
	c.put(models.KSRPrefix+"k8s/node/n1", "{}")
	c.run()
	return c
}

func (c *cluster) run() *Keeper {
	k := New(Options{Client: kubeapitest.Client(c.api), Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx, c.etcd) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
		synctest.Wait()
	})
	return k
}

func (c *cluster) put(key, value string) {
	c.t.Helper()
	if err := c.etcd.Put(context.Background(), key, []byte(value)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) agent(verdict, err string, problems ...string) {
	c.t.Helper()
	c.put(models.NodePrefix("n1")+models.AgentKey, "{}")
	n := published.Node{Verdict: verdict, Error: err, Time: time.Now()}
	for _, text := range problems {
		n.Problems = append(n.Problems, published.Problem{Check: "some", Text: text})
	}
	n.Problems = append(n.Problems, published.Problem{Check: "ksr", Text: "KSR: is ill", Cluster: true})
	data, _ := json.Marshal(n)
	c.put(published.NodeKey("n1"), string(data))
}

func (c *cluster) gone() {
	_ = c.etcd.Delete(context.Background(), models.NodePrefix("n1")+models.AgentKey)
}

func (c *cluster) condition() corev1.NodeCondition {
	c.t.Helper()
	node, err := c.api.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	i := slices.IndexFunc(node.Status.Conditions, func(n corev1.NodeCondition) bool { return n.Type == Type })
	if i < 0 {
		return corev1.NodeCondition{}
	}
	return node.Status.Conditions[i]
}

const again = "again"

// after waits for d and checks the prefixes of the condition and of new events.
func (c *cluster) after(d time.Duration, want string, events ...string) {
	c.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	now := c.condition()
	if got := fmt.Sprintf("%s %s %s", now.Status, now.Reason, now.Message); !strings.HasPrefix(got, want) {
		c.t.Errorf("the condition is %q, want %q", got, want)
	}
	var got []string
	for _, a := range c.api.Actions() {
		if a.GetResource().Resource != "events" {
			continue
		}
		if _, is := a.(clienttesting.PatchAction); is {
			got = append(got, again)
		} else if create, is := a.(clienttesting.CreateAction); is {
			e := create.GetObject().(*corev1.Event)
			if e.Namespace != "default" || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.UID != "n1" {
				c.t.Errorf("event %+v", e)
			}
			got = append(got, e.Type+" "+e.Reason+" "+e.Message)
		}
	}
	if news := got[c.told:]; !slices.EqualFunc(news, events, strings.HasPrefix) {
		c.t.Errorf("events %q, want %q", news, events)
	}
	c.told = len(got)
}

func TestConditionFollowsTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.after(time.Minute, "Unknown NoAgent no agent has run on this node",
			"Warning ContivUnknown no agent has run on this node: check its pod of the DaemonSet contiv-vswitch")
		c.agent("healthy", "")
		c.after(11*time.Second, "True Healthy Contiv works on this node", "Normal ContivReady Contiv works on this node")
		healthy := c.condition().LastTransitionTime

		c.agent("broken", "startup resync is not done yet")
		c.after(30*time.Second, "True Healthy")
		c.agent("healthy", "")
		c.after(time.Minute, "True Healthy")

		c.agent("degraded", "", "1 value is FAILED")
		c.after(time.Minute, "True Degraded 1 value is FAILED", "Warning ContivDegraded 1 value is FAILED")
		if at := c.condition().LastTransitionTime; !at.Equal(&healthy) {
			t.Errorf("the status has been the same since %v, and not since %v", healthy, at)
		}
		c.agent("degraded", "", "2 values are FAILED")
		c.after(2*time.Minute, "True Degraded 2 values are FAILED", "Warning ContivDegraded 2 values are FAILED")
		c.agent("degraded", "", "3 values are FAILED")
		c.after(2*time.Minute, "True Degraded 2 values are FAILED")
		c.agent("degraded", "", "3 values are FAILED", "disk full")
		c.after(2*time.Minute, "True Degraded 3 values are FAILED; disk full", "Warning ContivDegraded disk full")

		c.agent("broken", "vswitch does not answer", "disk full")
		c.after(time.Minute, "False Broken vswitch does not answer; disk full", "Warning ContivNotReady vswitch does not answer", "Warning ContivNotReady disk full")
		if at := c.condition().LastTransitionTime; !at.After(healthy.Time) {
			t.Errorf("the status has been the same since %v", at)
		}
		c.agent("healthy", "")
		c.after(11*time.Second, "True Healthy", again)
		c.gone()
		c.after(30*time.Second, "True Healthy")
		const gone = "the agent has stopped or cannot reach etcd; pods keep their network, but new pods do not start. Its last report, at 2000-01-01T"
		c.after(time.Minute, "Unknown NoAgent "+gone, "Warning ContivUnknown "+gone)
	})
}

// Another instance continues with existing conditions and does not repeat events. It rewrites
// conditions after a while and after changes by others.
func TestConditionOutlivesTheKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, corev1.NodeCondition{Type: Type, Status: corev1.ConditionTrue, Reason: Degraded, Message: "1 value is FAILED", LastHeartbeatTime: metav1.Now()},
			corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
		c.agent("degraded", "", "1 value is FAILED")
		begin := time.Now()
		c.after(time.Minute, "True Degraded 1 value is FAILED")
		c.after(11*time.Minute, "True Degraded 1 value is FAILED")
		if at := c.condition().LastHeartbeatTime; !at.After(begin) {
			t.Errorf("last written at %v", at)
		}
		node, _ := c.api.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		if len(node.Status.Conditions) != 2 {
			t.Errorf("conditions of others: %v", node.Status.Conditions)
		}
		node.Status.Conditions = nil
		if _, err := c.api.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.after(12*time.Minute, "True Degraded 1 value is FAILED", "Warning ContivDegraded 1 value is FAILED")
	})
}

func TestEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		const changes = 45 // 80 s each: an hour
		for i := range changes {
			problem := strings.Repeat("x", i+1)
			c.agent("degraded", "", problem+" is wrong", problem+" is slow", problem+" is old")
			time.Sleep(65 * time.Second)
			synctest.Wait()
			c.agent("healthy", "")
			time.Sleep(15 * time.Second)
			synctest.Wait()
		}
		created, patched := 0, 0
		for _, a := range c.api.Actions() {
			if a.GetResource().Resource == "events" {
				if a.GetVerb() == "create" {
					created++
				} else {
					patched++
				}
			}
		}
		// Warnings are limited. "Ready" is of another type, and comes more seldom than the limit.
		if all := created + patched; all < eventBurst || all > eventBurst+60+1+changes || created > 30 {
			t.Errorf("%d events were written, and %d changed, in an hour", created, patched)
		}
	})
}

func TestRefusedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, etcd: memory.New(), api: fake.NewClientset()}
		var permitted atomic.Bool
		c.api.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !permitted.Load(), nil, errors.New("nodes is forbidden")
		})
		k := c.run()
		synctest.Wait()
		if p := k.Problems(); len(p) != 1 || !strings.HasPrefix(p[0], "writing Node conditions failed: nodes is forbidden") {
			t.Errorf("%q", p)
		}
		permitted.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := k.Problems(); p != nil {
			t.Errorf("%q", p)
		}
	})
}

func TestPermissionsAreThoseThatAreUsed(t *testing.T) {
	data, err := os.ReadFile("../../../../deploy/contiv-ksr-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var permitted []string
	for _, document := range strings.Split(string(data), "\n---\n") {
		var role rbacv1.Role
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(role.Kind, "Role") || role.Name != "contiv-ksr-conditions" {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					permitted = append(permitted, fmt.Sprintf("%s %s in %q", verb, resource, role.Namespace))
				}
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		for range 6 {
			c.agent("healthy", "")
			time.Sleep(time.Minute)
			synctest.Wait() // The keeper reads etcd at this very time, and reads it before the next change.
			c.agent("broken", "vswitch does not answer")
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		var used []string
		for _, a := range c.api.Actions() {
			resource := a.GetResource().Resource
			if a.GetSubresource() != "" {
				resource += "/" + a.GetSubresource()
			}
			used = append(used, fmt.Sprintf("%s %s in %q", a.GetVerb(), resource, a.GetNamespace()))
		}
		slices.Sort(permitted)
		slices.Sort(used)
		if used = slices.Compact(used); !slices.Equal(permitted, used) {
			t.Errorf("permitted: %q\nused: %q", permitted, used)
		}
	})
}
