package kvscheduler

import (
	"slices"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// node is a value as the scheduler knows it. Published nodes are immutable: a transaction changes
// copies (see exec.mutable).
type node struct {
	key  string
	desc *handler // nil: property, or base value without a descriptor

	// want is the version that should exist, requested by the northbound or derived from a requested
	// value; nil if the value should not exist.
	want proto.Message
	// have is the version that exists as far as known; nil if none does.
	have proto.Message

	deps     []Dependency
	optional *optionalFields // nil: all fields are zero

	txn   uint64 // last transaction that changed the value
	epoch uint64 // owner of this copy
	op    int32  // index of the last operation recorded in this epoch, or -1

	state  uint8
	lastOp uint8
	flags  flags
}

// optionalFields are fields that most values lack. The struct is replaced, never changed.
type optionalFields struct {
	// base is the key of the base value of a derived value.
	base    string
	derived []string // sorted keys of derived values
	meta    any
	// oldDepCount is the number of trailing dependencies that belong to the existing version of the
	// value and not to the wanted one.
	oldDepCount int
	retry       *Retry // policy of the last transaction that requested the value
	info        *nodeInfo
}

func (n *node) optionalCopy() optionalFields {
	if n.optional == nil {
		return optionalFields{}
	}
	return *n.optional
}

func (n *node) base() string {
	if n.optional == nil {
		return ""
	}
	return n.optional.base
}

func (n *node) derived() []string {
	if n.optional == nil {
		return nil
	}
	return n.optional.derived
}

func (n *node) meta() any {
	if n.optional == nil {
		return nil
	}
	return n.optional.meta
}

// wantedDeps returns the dependencies of the wanted version.
func (n *node) wantedDeps() []Dependency {
	if n.optional == nil {
		return n.deps
	}
	return n.deps[:len(n.deps)-n.optional.oldDepCount]
}

// oldDeps returns the dependencies of the existing version that the wanted version lacks.
func (n *node) oldDeps() []Dependency { return n.deps[len(n.wantedDeps()):] }

func (n *node) retry() *Retry {
	if n.optional == nil {
		return nil
	}
	return n.optional.retry
}

func (n *node) info() *nodeInfo {
	if n.optional == nil {
		return nil
	}
	return n.optional.info
}

func (n *node) setOptional(r optionalFields) {
	n.optional = nil
	if r.base != "" || r.derived != nil || r.meta != nil || r.oldDepCount != 0 || r.retry != nil || r.info != nil {
		n.optional = new(optionalFields)
		*n.optional = r
	}
}

func (n *node) setBase(key string) {
	r := n.optionalCopy()
	r.base = key
	n.setOptional(r)
}

func (n *node) setDerived(keys []string) {
	if n.optional == nil && len(keys) == 0 || slices.Equal(n.derived(), keys) {
		return
	}
	r := n.optionalCopy()
	r.derived = keys
	n.setOptional(r)
}

func (n *node) setMeta(meta any) {
	if n.optional == nil && meta == nil {
		return
	}
	r := n.optionalCopy()
	r.meta = meta
	n.setOptional(r)
}

func (n *node) setOldDepCount(count int) {
	if n.optionalCopy().oldDepCount == count {
		return
	}
	r := n.optionalCopy()
	r.oldDepCount = count
	n.setOptional(r)
}

func (n *node) setRetry(retry *Retry) {
	if n.retry() == retry {
		return
	}
	r := n.optionalCopy()
	r.retry = retry
	n.setOptional(r)
}

func (n *node) setInfo(info *nodeInfo) {
	if n.info() == info {
		return
	}
	r := n.optionalCopy()
	r.info = info
	n.setOptional(r)
}

type flags uint8

const (
	// fromSB: the value is OBTAINED, or derived from an OBTAINED value.
	fromSB flags = 1 << iota
	// broken: its last creation or deletion failed. No other value may rely on it.
	broken
	// unknown: its last operation failed, and it has not been read back since.
	unknown
	// deleting: its deletion in this transaction has started.
	deleting
	// drifted: the southbound has another version than expected.
	drifted
	// invalid: the wanted version does not validate. The last valid version stays until its
	// dependencies are deleted.
	invalid
)

// nodeInfo holds the details of PENDING, INVALID and failed values. It is immutable once its node is published.
type nodeInfo struct {
	err     error
	details []string // labels of unmet dependencies, or invalid fields
	derives []string // keys that a PENDING base value would derive
	seq     uint64   // transaction of the failure
	attempt int      // number of the scheduled retry
	delay   time.Duration
	retryAt time.Time
	// blockedBy is the key of the value that blocked the operation, or "" if it was executed.
	blockedBy string
	// recreate: the operation is part of a re-creation.
	recreate bool
}

// Key returns the key of the node in the graph.
func (n *node) Key() string { return n.key }

func (n *node) is(f flags) bool          { return n.flags&f != 0 }
func (n *node) set(f flags)              { n.flags |= f }
func (n *node) clear(f flags)            { n.flags &^= f }
func (n *node) State() pb.ValueState     { return pb.ValueState(n.state) }
func (n *node) setState(s pb.ValueState) { n.state = uint8(s) }
func (n *node) baseKey() string {
	if base := n.base(); base != "" {
		return base
	}
	return n.key
}

// available reports whether other values may depend on the value.
func (n *node) available() bool {
	return n.have != nil && n.flags&(broken|deleting) == 0 &&
		(n.want != nil || n.flags&fromSB != 0 || n.State() == pb.ValueState_DISCOVERED)
}

func (n *node) err() error {
	if info := n.info(); info != nil {
		return info.err
	}
	return nil
}

func (n *node) details() []string {
	if info := n.info(); info != nil {
		return info.details
	}
	return nil
}

func (n *node) origin() Origin {
	if n.is(fromSB) {
		return FromSB
	}
	return FromNB
}

// hasFailed reports whether the last operation of the value failed.
func hasFailed(n *node) bool {
	return n.State() == pb.ValueState_FAILED || n.State() == pb.ValueState_RETRYING
}
