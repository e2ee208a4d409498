package health

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/health/published"
	"github.com/contiv/contiv/store"
)

const (
	// ksrSilent is how long KSR may write nothing: another instance takes over in less.
	ksrSilent = 3 * published.Heartbeat
	// ksrTimeout is how long etcd has to answer.
	ksrTimeout = 2 * time.Second
)

// KSR looks at what KSR publishes in etcd: whether it does, and what it cannot read or reflect.
// That concerns the whole cluster. Without etcd it says nothing: connected is why there is none.
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
			return nil // the check of etcd says so
		}
		if !found {
			kv = store.KV{}
		}
		return k.look(kv, time.Now())
	}}
}

// ksr remembers since when the status has not been written again. Times are those of this node:
// the clock of KSR's may be another one.
type ksr struct {
	mu       sync.Mutex
	revision int64
	heard    time.Time
}

// forget is called when nothing can be heard.
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
			problems = append(problems, "KSR has never said in etcd how it is: "+effect+" while it does not run, or does not reach the API server; see the log of contiv-ksr")
		}
		return problems
	}
	var status published.KSR
	if err := json.Unmarshal(kv.Value, &status); err != nil {
		return []string{fmt.Sprintf("the status of KSR in etcd (%s) cannot be read: %v", published.KSRKey, err)}
	}
	if silent {
		return []string{fmt.Sprintf("KSR (instance %s) has written nothing into etcd since %s: %s until it runs, and reaches the API server; see the log of contiv-ksr",
			status.Instance, status.Time.UTC().Format(time.RFC3339), effect)}
	}
	for _, problem := range status.Problems {
		problems = append(problems, "KSR: "+strings.ReplaceAll(problem, "\n", "; "))
	}
	if status.More > 0 {
		problems = append(problems, fmt.Sprintf("KSR: %d more problems, which /readiness of contiv-ksr lists", status.More))
	}
	return problems
}
