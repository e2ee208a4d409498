package controller

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
)

// DBResync carries a snapshot of the Kubernetes state and of the external
// configuration, from etcd or from the local mirror.
type DBResync struct {
	NonBlocking
	// Local says that the snapshot is the local mirror's.
	Local bool
	// State and External are nil for an agent without a database.
	State KubeState
	// External is the configuration under /vnf-agent/<node>/.
	External ExternalConfig
	// Outage is how long the database had been out of reach before; 0: it was not.
	Outage time.Duration
	// Processed, if not nil, is told the record of the event, right after it was
	// processed; or, if it was aborted, that of the resync that made up for it. It
	// must not wait.
	Processed func(*EventRecord)
}

func (e *DBResync) processed(r *EventRecord) { tell(e.Processed, r) }

func (*DBResync) Name() string        { return "Database Resync" }
func (*DBResync) Method() EventMethod { return FullResync }
func (e *DBResync) String() string {
	if e.State == nil && e.External == nil {
		return "Database Resync: there is no database"
	}
	from := "etcd"
	if e.Local {
		from = "local mirror"
	}
	if e.Outage > 0 {
		from += fmt.Sprintf(", which had been out of reach for %s", e.Outage.Round(100*time.Millisecond))
	}
	n := 0
	for _, values := range e.State {
		n += len(values)
	}
	return fmt.Sprintf("Database Resync from %s: %d Kubernetes values, %d external values", from, n, len(e.External))
}

// DBLost says that the database is out of reach, or lost its data. Nothing is done about it, the node goes on with what it
// knows; a DBResync follows when the database is back.
type DBLost struct {
	NonBlocking
	Reason error
}

func (*DBLost) Name() string                     { return "Database Lost" }
func (*DBLost) Method() EventMethod              { return Update }
func (*DBLost) TransactionType() TransactionType { return BestEffort }
func (*DBLost) Direction() Direction             { return Forward }
func (e *DBLost) String() string {
	return fmt.Sprintf("Database Lost: %v: the node goes on with what it knows", e.Reason)
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
