package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Stage makes the operations of a transaction take effect together. Create, Update and Delete of its
// descriptors only prepare a change. Commit applies all changes since the last Commit at once:
//
//	Create a/1 ─┐
//	Update a/2 ─┼─ prepared ──> Commit ──> southbound
//	Delete b/1 ─┘
//
// The scheduler calls Commit once, after the last operation of a transaction and before its result
// becomes visible. It calls Commit earlier where the order of operations requires it:
//
//   - before an operation of a value of another descriptor, if one of the two values depends on the
//     other one, or depended on it before the operation;
//   - before any operation of another descriptor, if the stage is Early;
//   - before Retrieve and RetrieveKeys of its descriptors;
//   - after each operation of a derived value.
//
// A reverted transaction prepares its undo before Commit is called, so that no part of it ever takes
// effect. Only if an operation of the stage itself failed, Commit and reading back precede the undo.
//
// Commit is not called if nothing is prepared. Descriptors with a Stage have no derived values.
type Stage struct {
	// Name is unique within the scheduler.
	Name string
	// Early commits the stage before the next operation of another descriptor, even without a
	// dependency.
	Early bool
	// Commit applies the prepared changes and clears them. It is called like Create, under
	// Options.CallTimeout and never concurrently with another callback. An error means that none of
	// the changes is in effect; a StageError means that all changes are, except for its keys. The
	// affected values fail with the error, are read back, and are repeated according to their retry
	// policy.
	Commit func(ctx context.Context) error
}

// StageError is the error of a Commit that applied all changes except for some keys.
type StageError struct {
	Keys map[string]error
}

func (e *StageError) Error() string {
	return fmt.Sprintf("%d values not applied", len(e.Keys))
}

// stage is the registered form of a Stage. Its handler represents it in calls.
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

// pendingStage holds the prepared operations of a stage.
type pendingStage struct {
	stage *stage
	keys  []string // in the order of the first operation
	ops   map[string]committedState
}

// committedState is the state of a value at the last Commit.
type committedState struct {
	desc *handler
	have proto.Message // nil: the value did not exist
	meta any
	deps []Dependency
	// broken: no other value could rely on it.
	broken bool
}

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

func (x *exec) committedStateOf(n *node) committedState {
	return committedState{desc: n.desc, have: n.have, meta: n.meta(), deps: x.depsOfExisting(n), broken: n.is(broken)}
}

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

// addPrepared records a successful operation if the descriptor of the value has a stage.
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

// commitBefore commits the stages that must take effect before an operation of the value. It returns an
// error if a stage failed on which the operation relies.
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
			return fmt.Errorf("not executed, because stage %s failed: %w", st.def.Name, err)
		}
		i-- // commit removed the stage from the list
	}
	return nil
}

// affects reports whether the value depends on a prepared value or vice versa.
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

// commitAll commits all stages. It reports whether anything was prepared.
func (x *exec) commitAll() bool {
	if len(x.pendingStages) == 0 {
		return false
	}
	for len(x.pendingStages) > 0 {
		_ = x.commit(x.pendingStages[0].stage) // failures are recorded with their values
	}
	return true
}

// commit applies the prepared operations of the stage, and fails the values that were not applied.
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

// failPrepared fails a value after its prepared operation was not applied.
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
			n.set(broken) // values that relied on its repair are deleted again
			x.reread.lost = append(x.reread.lost, key)
		}
		if !sameNeeds(before.deps, n.deps) {
			x.setDepsKeepingOld(n, n.deps, before.deps)
		}
		_ = x.markFailed(n, p, pb.TxnOperation_UPDATE, err, false)
	}
}
