package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Stage makes operations of a transaction take effect together. Create, Update and Delete
// of its descriptors, one or several, only prepare a change; Commit applies what they
// prepared since the last Commit, all at once:
//
//	Create a/1 ─┐
//	Update a/2 ─┼─ prepared ──> Commit ──> southbound
//	Delete b/1 ─┘
//
// The scheduler calls Commit once, after the last operation of a transaction and before
// its result is known to anybody. It calls it earlier only where the order of operations
// would be violated otherwise:
//
//   - before an operation of a value outside of the stage that depends on a prepared one, or that a prepared one
//     depended on;
//   - before an operation of any value outside of the stage, if the stage is Early;
//   - before one of the descriptors is asked to Retrieve;
//   - after each operation of a derived value.
//
// A transaction that is reverted prepares the undoing, too, before Commit is called, so
// that no half of it is ever in effect; unless an operation of the stage itself failed, which is read
// back first.
//
// Without an operation, there is no Commit. Descriptors with a Stage derive nothing.
type Stage struct {
	// Name is unique within the scheduler.
	Name string
	// Early stages take effect before what follows them in the transaction, whether that depends
	// on them or not: as keys are sorted.
	Early bool
	// Commit applies what was prepared. An error means that none of it is in effect; a
	// StageError names the keys that are not, and all others are. Either way nothing
	// remains prepared. The values concerned fail with the error, are read back, and are
	// repeated as those are whose own operation failed.
	Commit func(ctx context.Context) error
}

// StageError is returned by the Commit of a Stage that applied all but some keys.
type StageError struct {
	Keys map[string]error
}

func (e *StageError) Error() string {
	return fmt.Sprintf("%d values did not take effect", len(e.Keys))
}

// stage is a Stage as a registry knows it. Its handler stands for it in calls.
type stage struct {
	def *Stage
	h   *handler
}

func newStage(of *Stage) *stage {
	h := &handler{name: of.Name}
	h.commit = of.Commit
	return &stage{of, h}
}

func callCommit(c *call) { c.err = c.h.commit(c.ctx) }

// staged are the operations that a stage has prepared.
type pendingStage struct {
	stage *stage
	keys  []string // in the order of the first operation
	ops   map[string]committedState
}

// stagedOp is the state of the value before the first of its prepared operations.
type committedState struct {
	desc *handler
	have proto.Message // nil: it did not exist
	meta any
	deps []Dependency
	// broken: no value could depend on it.
	broken bool
}

// perform calls the descriptor for an operation of the value.
func (x *exec) perform(n *node, c *call) error {
	if len(x.pendingStages) == 0 && n.desc.stage == nil {
		return x.caller.do(c)
	}
	if err := x.commitBefore(n); err != nil {
		return err
	}
	before := x.committedStateOf(n)
	if err := x.caller.do(c); err != nil {
		return err
	}
	return x.addPrepared(n, before)
}

// beforeStaged is the value as it is before an operation.
func (x *exec) committedStateOf(n *node) committedState {
	return committedState{desc: n.desc, have: n.have, meta: n.meta(), deps: x.depsOfExisting(n), broken: n.is(broken)}
}

// depsBefore are the dependencies of the existing value.
func (x *exec) depsOfExisting(n *node) []Dependency {
	if n.desc.stage == nil || n.have == nil {
		return nil
	}
	deps, err := n.desc.dependencies(n.key, n.have)
	if err != nil {
		return n.deps
	}
	return deps
}

// prepared notes an operation of a value that succeeded, if its descriptor has a stage.
func (x *exec) addPrepared(n *node, before committedState) error {
	st := n.desc.stage
	if st == nil {
		return nil
	}
	if n.base() != "" {
		return x.callCommit(st)
	}
	i := slices.IndexFunc(x.pendingStages, func(s pendingStage) bool { return s.stage == st })
	if i < 0 {
		i = len(x.pendingStages)
		x.pendingStages = append(x.pendingStages, pendingStage{stage: st, ops: map[string]committedState{}})
	}
	if s := &x.pendingStages[i]; s.ops[n.key].desc == nil {
		s.keys = append(s.keys, n.key)
		s.ops[n.key] = before
	}
	return nil
}

// inEffect commits the stages that an operation of the value must not overtake. It returns an
// error if something that the operation counts on is not in effect.
func (x *exec) commitBefore(n *node) error {
	if len(x.pendingStages) == 0 {
		return nil
	}
	for i := 0; i < len(x.pendingStages); i++ {
		st := x.pendingStages[i].stage
		if n.desc != nil && st == n.desc.stage {
			continue
		}
		concerned := x.pendingStages[i].affects(n)
		if !concerned && !st.def.Early {
			continue
		}
		if err := x.commit(st); err != nil && concerned {
			return fmt.Errorf("not begun, because stage %s failed: %w", st.def.Name, err)
		}
		i-- // it is not in the list any more
	}
	return nil
}

// concerns reports whether the value depends on a prepared one, or a prepared one on it.
func (s *pendingStage) affects(n *node) bool {
	for _, key := range s.keys {
		op := s.ops[key]
		if slices.ContainsFunc(n.deps, func(d Dependency) bool { return d.matches(key) }) ||
			slices.ContainsFunc(op.deps, func(d Dependency) bool { return d.matches(n.key) }) {
			return true
		}
	}
	return false
}

// commitAll commits all stages. It reports whether there were any.
func (x *exec) commitAll() bool {
	if len(x.pendingStages) == 0 {
		return false
	}
	for len(x.pendingStages) > 0 {
		_ = x.commit(x.pendingStages[0].stage) // failures are recorded with their values
	}
	return true
}

// commit applies the prepared operations of the stage, and fails the values that it cannot apply.
func (x *exec) commit(st *stage) error {
	i := slices.IndexFunc(x.pendingStages, func(s pendingStage) bool { return s.stage == st })
	if i < 0 {
		return nil
	}
	s := x.pendingStages[i]
	x.pendingStages = slices.Delete(x.pendingStages, i, i+1)
	all := x.callCommit(st)
	if all == nil {
		return nil
	}
	some := (*StageError)(nil)
	for _, key := range s.keys {
		err := all
		if errors.As(all, &some) {
			if err = some.Keys[key]; err == nil {
				continue
			}
		}
		x.failPrepared(key, s.ops[key], err)
	}
	return all
}

func (x *exec) callCommit(st *stage) error {
	return x.caller.do(&call{h: st.h, name: "Commit", run: callCommit, key: st.def.Name})
}

// notInEffect fails a value whose prepared operation did not take effect.
func (x *exec) failPrepared(key string, before committedState, err error) {
	n := x.get(key)
	if n == nil {
		if before.have == nil {
			return
		}
		n = x.add(key)
		n.desc = before.desc
	}
	p := priorOf(n)
	n = x.mutable(n)
	switch {
	case before.have == nil && n.have == nil:
	case before.have == nil:
		x.dropMetadata(n)
		x.reread.lost = append(x.reread.lost, key)
		_ = x.markFailed(n, p, pb.TxnOperation_CREATE, err, false)
	case n.have == nil:
		n.have = before.have
		n.setMeta(before.meta)
		x.storeMetadata(n)
		x.setDeps(n, before.deps)
		_ = x.markFailed(n, p, pb.TxnOperation_DELETE, err, false)
	default:
		n.have = before.have
		n.setMeta(before.meta)
		x.storeMetadata(n)
		if before.broken {
			n.set(broken) // whoever counted on its repair goes again
			x.reread.lost = append(x.reread.lost, key)
		}
		if !sameNeeds(before.deps, n.deps) {
			x.setDepsKeepingOld(n, n.deps, before.deps)
		}
		_ = x.markFailed(n, p, pb.TxnOperation_UPDATE, err, false)
	}
}
