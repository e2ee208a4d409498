package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/feedback"
	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// rig is an agent with only the policy plugin. Its fake vswitch rejects the values in broken.
type rig struct {
	t         *testing.T
	policy    *Policy
	scheduler *kvscheduler.Scheduler
	broken    sync.Map
	away      atomic.Pointer[string]
	told      sync.Map
	wired     podmanager.LocalPods
	txns      uint64
}

func (n *rig) LocalPods() podmanager.LocalPods { return n.wired }
func (n *rig) LocalPod(id podmanager.PodID) (*podmanager.LocalPod, bool) {
	p, ok := n.wired[id]
	return p, ok
}
func (*rig) GetPodIPs(podmanager.PodID) []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("10.1.1.2")}
}
func (*rig) GetPodIfNames(podmanager.PodID) (string, string, string, bool) {
	return "tap", "", "", true
}
func (*rig) GetPodCustomIfs(podmanager.PodID) ([]string, []netip.Addr) { return nil, nil }
func (*rig) PodSubnets(*nodesync.Node) []netip.Prefix                  { return nil }
func (*rig) GetAllNodes() nodesync.Nodes                               { return nil }
func (*rig) OwnNetworks() ([]netip.Prefix, error)                      { return nil, nil }
func (*rig) NodeAddresses(*nodesync.Node) []netip.Addr                 { return nil }
func (*rig) PushEvent(context.Context, controller.Event) error         { return nil }

func refusing[V proto.Message](n *rig, name, prefix string) kvscheduler.Descriptor[V, kvscheduler.NoMetadata] {
	set := func(key string) error {
		if _, broken := n.broken.Load(key); broken {
			return errors.New("no room")
		}
		return nil
	}
	return kvscheduler.Descriptor[V, kvscheduler.NoMetadata]{
		Name: name, Keys: kvscheduler.KeySpace{Prefix: prefix}, NB: true,
		Create: func(_ context.Context, key string, _ V) (none kvscheduler.NoMetadata, err error) {
			return none, set(key)
		},
		Update: func(_ context.Context, key string, _, _ V, none kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
			return none, set(key)
		},
		Delete: func(context.Context, string, V, kvscheduler.NoMetadata) error { return nil },
	}
}

func startRig(t *testing.T) *rig {
	n := &rig{t: t, wired: podmanager.LocalPods{}}
	log := slog.New(slog.DiscardHandler)
	n.scheduler = kvscheduler.New(kvscheduler.Options{Logger: log})
	t.Cleanup(func() { n.scheduler.Close() })
	if err := errors.Join(
		kvscheduler.Register(n.scheduler, refusing[*contiv_filter.AddressSet](n, "sets", models.AddressSet.KeyPrefix())),
		kvscheduler.Register(n.scheduler, refusing[*contiv_filter.AccessList](n, "lists", models.AccessList.KeyPrefix())),
		kvscheduler.Register(n.scheduler, refusing[*contiv_filter.Subject](n, "subjects", models.Subject.KeyPrefix())),
	); err != nil {
		t.Fatal(err)
	}
	n.policy = New(Capabilities{Filter: true}, "node1", n, n, n, n, n, log)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() {
		n.policy.RunStatus(ctx, Publish{Watch: n.scheduler.Watch, VSwitch: n.vswitch, Replace: func(prefix string, statuses map[string]proto.Message) {
			n.told.Range(func(key, _ any) bool {
				if strings.HasPrefix(key.(string), prefix) && statuses[key.(string)] == nil {
					n.told.Delete(key)
				}
				return true
			})
			for key, s := range statuses {
				n.told.Store(key, s)
			}
		}})
	})
	n.event(&controller.DBResync{})
	return n
}

func (n *rig) vswitch() error {
	if why := n.away.Load(); why != nil {
		return errors.New(*why)
	}
	return nil
}

type ops struct{ *kvscheduler.Transaction }

func (o ops) Put(key string, value proto.Message) { o.Transaction.Put(key, value) }
func (o ops) Get(string) proto.Message            { return nil }
func (o ops) Delete(key string)                   { o.Transaction.Delete(key) }

func (n *rig) event(event controller.Event) {
	n.t.Helper()
	txn, record := n.scheduler.NewTransaction(), &controller.EventRecord{}
	var err error
	if event.Method() == controller.Update {
		if _, err = n.policy.Update(n.t.Context(), event, ops{txn}); err == nil {
			_, err = n.policy.EndBulk(n.t.Context(), ops{txn})
		}
	} else {
		err = n.policy.Resync(n.t.Context(), event, nil, 1, ops{txn})
	}
	if err != nil {
		n.t.Fatal(err)
	}
	seq, err := txn.Commit(n.t.Context())
	n.txns, record.Txn, record.ProcessingEnd = seq, &controller.TxnRecord{SeqNum: seq}, time.Now()
	if err != nil {
		record.ErrorStr = err.Error()
	}
	n.policy.EventDone(event, record)
}

func (n *rig) set(resource string, before, after proto.Message) {
	n.t.Helper()
	change := &controller.KubeStateChange{Resource: resource, PrevValue: before, NewValue: after}
	n.event(change)
}

// status returns "realised", "gone", or the published reasons.
func (n *rig) status(key string) (string, *feedback.PolicyStatus) {
	value, ok := n.told.Load(key)
	if !ok {
		return "gone", nil
	}
	s := value.(*feedback.PolicyStatus)
	if s.GetRealised() {
		return "realised", s
	}
	return strings.Join(s.GetReasons(), "; "), s
}

func (n *rig) await(key, want string) (status *feedback.PolicyStatus) {
	n.t.Helper()
	n.poll("status of "+key, want, func() (text string) {
		text, status = n.status(key)
		return text
	})
	return status
}

func (n *rig) poll(what, want string, look func() string) {
	n.t.Helper()
	got := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if got = look(); strings.Contains(got, want) {
			return
		}
	}
	n.t.Fatalf("%s is %q, want %q", what, got, want)
}

func TestNothingIsRememberedOfPoliciesThatAreGone(t *testing.T) {
	n := startRig(t)
	for i := range 10 {
		p := &policy.Policy{Name: fmt.Sprint("web", i), Namespace: "prod", Pods: &policy.Policy_LabelSelector{}}
		if i%2 == 0 {
			n.broken.Store(models.Key(&contiv_filter.AccessList{Name: "np/prod/" + p.Name + "/ingress"}), true)
		}
		n.set(kubestate.Policy, nil, p)
		n.set(kubestate.Policy, p, nil)
	}
	n.poll("the recorded states", "nothing", func() string {
		r := n.policy.real
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.states)+len(r.changed)+len(r.failed)+len(r.asked) == 0 {
			return "nothing"
		}
		return fmt.Sprintf("%d states, %d changed, %d failed, %d asked", len(r.states), len(r.changed), len(r.failed), len(r.asked))
	})
}

func TestWhatBecomesOfPolicies(t *testing.T) {
	n := startRig(t)
	began := time.Now()
	web := &policy.Policy{Name: "web", Namespace: "prod", Pods: &policy.Policy_LabelSelector{}, PolicyType: policy.Policy_INGRESS,
		ChangeTime: began.Add(-time.Hour).UTC().Format(time.RFC3339)}
	const key = "policy/prod/web"
	n.set(kubestate.Policy, nil, web)
	if r := n.policy.report("prod/web"); len(r.Policies) != 1 || len(r.Policies[0].Pods) != 0 {
		t.Errorf("a policy about no pod of the node: %+v", r)
	}
	server := &pod.Pod{Name: "server", Namespace: "prod", NodeName: "node1"}
	n.set(kubestate.Pod, nil, server)
	n.await(key, "pod prod/server is not connected yet")

	subject := models.Key(&contiv_filter.Subject{Name: "prod/server"})
	n.broken.Store(subject, true)
	id := podmanager.PodID{Namespace: "prod", Name: "server"}
	n.wired[id] = &podmanager.LocalPod{ID: id, ContainerID: "c"}
	n.event(&podmanager.AddPod{Pod: id, ContainerID: "c"})
	n.await(key, subject+" is FAILED: no room")
	n.broken.Delete(subject)
	n.event(&podmanager.DeletePod{Pod: id, ContainerID: "c"})
	n.event(&podmanager.AddPod{Pod: id, ContainerID: "c"})
	n.await(key, "realised")

	open := proto.CloneOf(web)
	open.IngressRule = []*policy.Policy_IngressRule{{}}
	open.ChangeTime = time.Now().Add(time.Second).UTC().Format(time.RFC3339)
	n.set(kubestate.Policy, web, open)
	last := n.txns
	for end := time.Now().Add(time.Minute); ; {
		s := n.await(key, "realised")
		if s.GetTransaction() == last {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("realised since %d, want %d", s.GetTransaction(), last)
		}
	}
	var m dto.Metric
	if err := n.policy.metrics.programming.Write(&m); err != nil || m.GetHistogram().GetSampleCount() != 1 {
		t.Errorf("%v: %d changes were measured, want 1: the first was before the agent began", err, m.GetHistogram().GetSampleCount())
	}

	list := models.Key(&contiv_filter.AccessList{Name: "np/prod/web/ingress"})
	n.broken.Store(list, true)
	n.set(kubestate.Policy, open, web)
	if s := n.await(key, list+" is FAILED: no room"); s.GetTransaction() != n.txns {
		t.Errorf("not realised since %d, want %d", s.GetTransaction(), n.txns)
	}
	if r := n.policy.report("prod/web"); fmt.Sprint(r.Policies[0].Pods) != "[prod/server]" || r.Policies[0].Realised {
		t.Errorf("%+v", r.Policies)
	}
	n.broken.Delete(list)
	n.set(kubestate.Policy, web, open)
	n.await(key, "realised")

	n.set(kubestate.Policy, open, nil)
	n.await(key, "gone")
	if r := n.policy.report(""); len(r.Policies) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestVSwitchIsAway(t *testing.T) {
	n := startRig(t)
	n.set(kubestate.ClusterPolicy, nil, &policy.ClusterPolicy{Name: "base", Subject: &policy.ClusterPolicy_Pods{}})
	n.await("clusternetworkpolicy/base", "gone")
	why := "VPP does not answer"
	n.away.Store(&why)
	n.policy.real.wake()
	n.await("clusternetworkpolicy/base", "VPP does not answer")
	n.away.Store(nil)
	n.policy.real.wake()
	n.await("clusternetworkpolicy/base", "gone")
}
