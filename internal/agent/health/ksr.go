package health

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store"
)

const (
	// ksrSilent is the age at which KSR's status counts as outdated; another instance takes over
	// sooner.
	ksrSilent = 3 * published.Heartbeat
	// ksrTimeout bounds a read of etcd.
	ksrTimeout = 2 * time.Second
)

// KSR checks whether KSR publishes its state in etcd, and reports objects that KSR cannot read or
// reflect. These problems concern the whole cluster. While connected returns an error, the check
// finds nothing.
func KSR(etcd store.Broker, connected func() error) Check {
	k := &ksr{}
	return Check{Name: "ksr", Cluster: true, Look: func(ctx context.Context) []string {
		if connected() != nil {
			k.forget()
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, ksrTimeout)
		defer cancel()
		kv, found, err := etcd.Get(ctx, published.KSRKey)
		if err != nil {
			k.forget()
			return nil // the check of etcd reports it
		}
		if !found {
			kv = store.KV{}
		}
		return k.look(kv, time.Now())
	}}
}

// ksr records when the status was last written, by this node's clock, because KSR's may differ.
type ksr struct {
	mu       sync.Mutex
	revision int64
	heard    time.Time
}

// forget clears the record after a failed read.
func (k *ksr) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heard = time.Time{}
}

func (k *ksr) look(kv store.KV, now time.Time) (problems []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.heard.IsZero() || kv.Revision != k.revision {
		k.heard, k.revision = now, kv.Revision
	}
	silent := now.Sub(k.heard) >= ksrSilent
	const effect = "changes in Kubernetes do not reach the nodes"
	if kv.Value == nil {
		if silent {
			problems = append(problems, "KSR has never reported its status in etcd: "+effect+" while KSR does not run or cannot reach the API server; see the log of contiv-ksr")
		}
		return problems
	}
	var status published.KSR
	if err := json.Unmarshal(kv.Value, &status); err != nil {
		return []string{fmt.Sprintf("the status of KSR in etcd (%s) cannot be read: %v", published.KSRKey, err)}
	}
	if silent {
		return []string{fmt.Sprintf("KSR (instance %s) has written nothing to etcd since %s: %s until KSR runs and reaches the API server; see the log of contiv-ksr",
			status.Instance, status.Time.UTC().Format(time.RFC3339), effect)}
	}
	for _, problem := range status.Problems {
		problems = append(problems, "KSR: "+strings.ReplaceAll(problem, "\n", "; "))
	}
	if status.More > 0 {
		problems = append(problems, fmt.Sprintf("KSR: %d more problems: see /readiness of contiv-ksr", status.More))
	}
	return problems
}
