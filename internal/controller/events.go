package controller

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
)

// DBResync carries a snapshot of the Kubernetes state and of the external configuration.
type DBResync struct {
	// Local: the snapshot is from the local mirror, not etcd.
	Local bool
	// State and External are nil for an agent without a database.
	State KubeState
	// External is the configuration under /vnf-agent/<node>/.
	External ExternalConfig
	// Outage is how long the database was unreachable before; 0 if it was not.
	Outage time.Duration
	// Processed, if not nil, is called with the record of the event after processing. For an
	// aborted event it is called with the record of the next successful resync. It must not block.
	Processed func(*EventRecord)
}

func (e *DBResync) Done(o Outcome)       { tell(e.Processed, o) }
func (e *DBResync) completesLater() bool { return e.Processed != nil }

func (*DBResync) Name() string        { return "Database Resync" }
func (*DBResync) Method() EventMethod { return FullResync }
func (e *DBResync) String() string {
	if e.State == nil && e.External == nil {
		return "Database Resync without a database"
	}
	from := "etcd"
	if e.Local {
		from = "local mirror"
	}
	if e.Outage > 0 {
		from += fmt.Sprintf(", unreachable for %s before", e.Outage.Round(100*time.Millisecond))
	}
	n := 0
	for _, values := range e.State {
		n += len(values)
	}
	return fmt.Sprintf("Database Resync from %s: %d Kubernetes values, %d external values", from, n, len(e.External))
}

// DBLost reports that the database is unreachable or lost its data. It changes nothing; a DBResync
// follows when the database is back.
type DBLost struct {
	NonBlocking
	Reason error
}

func (*DBLost) Name() string                     { return "Database Lost" }
func (*DBLost) Method() EventMethod              { return Update }
func (*DBLost) TransactionType() TransactionType { return BestEffort }
func (*DBLost) Direction() Direction             { return Forward }
func (e *DBLost) String() string {
	return fmt.Sprintf("Database Lost: %v; the node keeps its state", e.Reason)
}

// KubeStateChange is the change of one Kubernetes value.
type KubeStateChange struct {
	NonBlocking
	// Key without the KSR prefix, e.g. "k8s/pod/web/namespace/default".
	Key string
	// Resource is the keyword, e.g. "pod".
	Resource string
	// PrevValue is nil for a new value, NewValue for a deleted one.
	PrevValue, NewValue proto.Message
}

func (*KubeStateChange) Name() string                     { return "Kubernetes State Change" }
func (*KubeStateChange) Method() EventMethod              { return Update }
func (*KubeStateChange) TransactionType() TransactionType { return BestEffort }
func (e *KubeStateChange) Direction() Direction {
	if e.NewValue == nil {
		return Reverse
	}
	return Forward
}
func (e *KubeStateChange) String() string {
	what := "changed"
	switch {
	case e.PrevValue == nil:
		what = "added"
	case e.NewValue == nil:
		what = "deleted"
	}
	return fmt.Sprintf("Kubernetes State Change: %s %s (%s)", e.Resource, what, e.Key)
}
