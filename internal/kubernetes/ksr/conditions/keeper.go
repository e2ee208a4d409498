package conditions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Options of a Keeper.
type Options struct {
	Client *kubeapi.Client
	// Period is the interval of reads of etcd. Default 10 s.
	Period time.Duration
	// Grace is the delay before a deterioration is reported. Default 45 s.
	Grace time.Duration
	// Pause is the minimal time between two changes of a condition's message. Default 1 min.
	Pause time.Duration
	// Refresh is the interval of rereading and rewriting unchanged conditions, which others may
	// have changed. Default 10 min.
	Refresh time.Duration
	Logger  *slog.Logger
}

// Keeper updates the conditions of all nodes.
type Keeper struct {
	o   Options
	log *slog.Logger

	nodes map[string]*node
	read  time.Time

	mu      sync.Mutex
	problem string
}

type node struct {
	told       state
	transition metav1.Time
	written    time.Time
	// next is the current kind of state and its start, if it differs from the written one.
	next  string
	since time.Time
}

// New returns a keeper.
func New(o Options) *Keeper {
	o.Period, o.Grace = cmp.Or(o.Period, 10*time.Second), cmp.Or(o.Grace, 45*time.Second)
	o.Pause, o.Refresh = cmp.Or(o.Pause, time.Minute), cmp.Or(o.Refresh, 10*time.Minute)
	return &Keeper{o: o, log: o.Logger}
}

// Problems returns the reason why conditions cannot be written.
func (k *Keeper) Problems() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.problem == "" {
		return nil
	}
	return []string{k.problem}
}

func (k *Keeper) note(err error) {
	text := ""
	switch {
	case apierrors.IsForbidden(err):
		text = fmt.Sprintf("writing Node conditions failed: %v: give the service account of KSR the permissions of deploy/contiv-ksr-rbac.yaml", err)
	case err != nil:
		text = fmt.Sprintf("writing Node conditions failed: %v", err)
	}
	k.mu.Lock()
	before := k.problem
	k.problem = text
	k.mu.Unlock()
	if text != "" && published.Identity(text) != published.Identity(before) {
		k.log.Warn("Updating the condition of nodes failed", "error", err)
	}
}

// Run updates the conditions until ctx ends, and then returns nil. It retries after failures of
// etcd and the API server.
func (k *Keeper) Run(ctx context.Context, etcd store.Broker) error {
	events, end := k.recorder()
	defer end()
	k.nodes = nil
	for {
		err := k.round(ctx, etcd, events)
		if ctx.Err() != nil {
			return nil
		}
		k.note(err)
		select {
		case <-time.After(k.o.Period):
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeper) round(ctx context.Context, etcd store.Broker, events record.EventRecorder) error {
	const prefix = models.KSRPrefix + "k8s/" + kubestate.Node + "/"
	if k.nodes == nil || time.Since(k.read) >= k.o.Refresh {
		if err := k.readConditions(ctx); err != nil {
			return err
		}
	}
	reflected, _, err := etcd.List(ctx, prefix)
	if err != nil {
		return err
	}
	// Read each node's checks separately: a common prefix would include the configuration of all
	// nodes.
	var names, checks []string
	for _, kv := range reflected {
		name := strings.TrimPrefix(kv.Key, prefix)
		names, checks = append(names, name), append(checks, models.NodePrefix(name)+models.CheckPrefix)
	}
	lists, err := store.ListEach(ctx, etcd, checks)
	if err != nil {
		return err
	}
	var failed error
	present := make(map[string]bool)
	for i, name := range names {
		present[name] = true
		if err := k.tell(ctx, name, look(name, lists[i]), events); err != nil && failed == nil {
			failed = fmt.Errorf("node %s: %w", name, err)
		}
	}
	for name := range k.nodes {
		if !present[name] {
			delete(k.nodes, name)
		}
	}
	return failed
}

func (k *Keeper) readConditions(ctx context.Context) error {
	list, err := k.o.Client.Nodes.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	before := k.nodes
	k.nodes, k.read = make(map[string]*node), time.Now()
	for _, n := range list.Items {
		known := &node{}
		if old := before[n.Name]; old != nil {
			known.next, known.since, known.told.problems = old.next, old.since, old.told.problems
		}
		for _, c := range n.Status.Conditions {
			if c.Type == Type {
				known.told.status, known.told.reason, known.told.message = c.Status, c.Reason, c.Message
				known.transition, known.written = c.LastTransitionTime, c.LastHeartbeatTime.Time
			}
		}
		k.nodes[n.Name] = known
	}
	return nil
}

func look(name string, checks []store.KV) state {
	health, agent := published.NodeKey(name), models.NodePrefix(name)+models.AgentKey
	lives, written := false, []byte(nil)
	for _, kv := range checks {
		switch kv.Key {
		case agent:
			lives = true
		case health:
			written = kv.Value
		}
	}
	return stateOf(lives, written)
}

func (k *Keeper) tell(ctx context.Context, name string, now state, events record.EventRecorder) error {
	n := k.nodes[name]
	if n == nil {
		n = &node{}
		k.nodes[name] = n
	}
	if !n.due(now, k.o, time.Now()) {
		return nil
	}
	before, transition := n.told, n.transition
	if before.status != now.status {
		transition = metav1.Now()
	}
	err := k.write(ctx, name, now, transition)
	if apierrors.IsNotFound(err) {
		delete(k.nodes, name) // the node has just left
		return nil
	}
	if err != nil {
		return err
	}
	*n = node{told: now, transition: transition, written: time.Now()}
	announce(events, name, before, now)
	return nil
}

func (n *node) due(now state, o Options, at time.Time) bool {
	if now.kind() == n.told.kind() {
		n.next = ""
		if now.same(n.told) {
			return at.Sub(n.written) >= o.Refresh
		}
		return at.Sub(n.written) >= o.Pause
	}
	if now.reason == Healthy {
		return true
	}
	if n.next != now.kind() {
		n.next, n.since = now.kind(), at
	}
	return at.Sub(n.since) >= o.Grace
}

func (k *Keeper) write(ctx context.Context, name string, s state, transition metav1.Time) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{
		Type: Type, Status: s.status, Reason: s.reason, Message: s.message, LastHeartbeatTime: metav1.Now(), LastTransitionTime: transition,
	}}}})
	if err != nil {
		return err
	}
	_, err = k.o.Client.Nodes.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
