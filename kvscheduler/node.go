package kvscheduler

import (
	"slices"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// node is a value as the scheduler knows it. Nodes that were published are
// never changed; a transaction changes copies (see exec.mut).
type node struct {
	key  string
	desc *handler // nil: property, or base value without a descriptor

	// want is the value that should exist, requested by the northbound or derived from a requested
	// value; nil: none.
	want proto.Message
	// have is the existing value, as far as known; nil: none.
	have proto.Message

	deps     []Dependency
	optional *optionalFields // nil: all of it is zero

	txn   uint64 // last transaction that changed the value
	epoch uint64 // owner of this copy
	op    int32  // index of the last operation recorded in this epoch, or -1

	state  uint8
	lastOp uint8
	flags  flags
}

// rare holds fields that most values lack. It is never changed, but replaced.
type optionalFields struct {
	// base is the key of the value that this one is derived from.
	base    string
	derived []string // sorted keys of derived values
	meta    any
	// past is the number of trailing dependencies that belong to the existing value and not to the
	// wanted one.
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

// current are the dependencies of the wanted value.
func (n *node) wantedDeps() []Dependency {
	if n.optional == nil {
		return n.deps
	}
	return n.deps[:len(n.deps)-n.optional.oldDepCount]
}

// past are the dependencies of the existing value that the wanted one no longer has.
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

// setRare replaces the rare fields.
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

func (n *node) setOldDepCount(past int) {
	if n.optionalCopy().oldDepCount == past {
		return
	}
	r := n.optionalCopy()
	r.oldDepCount = past
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
	// fromSB: the value exists without us.
	fromSB flags = 1 << iota
	// broken: its last creation or deletion failed. No value may depend on it.
	broken
	// unknown: the last operation failed and the southbound could not be read since.
	unknown
	// leaving: it is about to be deleted, in this transaction.
	deleting
	// drifted: have was read back and differs from what it was.
	drifted
	// invalid: the wanted value does not validate. The last valid value, if it exists, stays until
	// its dependencies go.
	invalid
)

// nodeInfo holds fields that only values in trouble have. It is not changed once its node is published.
type nodeInfo struct {
	err     error
	details []string // labels of unmet dependencies, or invalid fields
	derives []string // keys that a base value would derive, if it is PENDING
	// Of failures:
	seq     uint64 // the transaction that failed
	attempt int    // of the retry that is scheduled
	delay   time.Duration
	retryAt time.Time
	// heldBy is the value because of which the operation was not begun; "": it was.
	blockedBy string
	// recreate: it is a re-creation.
	recreate bool
}

// Key is what the graph knows the node by.
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

// available reports whether others may depend on the value.
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

// inTrouble reports whether the last operation of the value failed.
func hasFailed(n *node) bool {
	return n.State() == pb.ValueState_FAILED || n.State() == pb.ValueState_RETRYING
}
