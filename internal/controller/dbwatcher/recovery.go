package dbwatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// An empty or old database lacks pods and other nodes. Following it would cut all connections until
// it is refilled. The node therefore keeps its state (at startup, the mirror) and restores the
// entries that it had written itself. It follows the database again
//
//  1. when the database has all known entries; or
//  2. recoveryPeriod after KSR has refilled it, so that other agents and users can restore
//     their entries. Entries still missing then were deleted. KSR writes
//     kubestate.ReflectedKey last; if the database never had this key, the agent does not
//     wait for KSR; or
//  3. after LostDatabaseTimeout, if set.
const (
	recoveryPeriod = 30 * time.Second
	// recoveryInterval is the interval of reads at first and until KSR has refilled the database.
	// Then it doubles up to maxRecoveryInterval.
	recoveryInterval    = time.Second
	maxRecoveryInterval = 8 * time.Second
)

// errRevisionWentBack ends a session with a database that lost its data.
var errRevisionWentBack = errors.New("revision of the database went backwards: it was wiped or restored")

const reflectedKey = models.KSRPrefix + kubestate.ReflectedKey

// recovery is the state from the detection of a data loss until the database is followed again.
type recovery struct {
	reason string
	// timeout is when LostDatabaseTimeout ends; zero: never.
	timeout time.Time
	// end is recoveryPeriod after KSR refilled the database; zero: it has not.
	end      time.Time
	interval time.Duration
}

// lost returns how the database differs from the known one, or which data it lacks; "" if neither.
func (s *session) lost(snapshot []store.KV, revision int64) string {
	identity := s.identityOfRemote()
	switch {
	case revision < s.lastRevision:
		return revisionWent(s.lastRevision, revision)
	case s.known.contradicts(snapshot, s.snapshotRevision):
		return "its keys have other revisions than before"
	case identity != "" && s.origin.Identity != "" && identity != s.origin.Identity:
		return fmt.Sprintf("it is the etcd cluster %s and was %s", identity, s.origin.Identity)
	case s.recovery != nil:
		return "" // the loss is known already
	case s.origin.Reflected && !hasKey(snapshot, reflectedKey):
		return "values written by KSR are missing"
	case s.snapshotRevision == 0 && s.knowsKubernetes() && !s.hasKubernetes(snapshot):
		return "it is empty"
	case s.snapshotRevision == 0 && s.lostOwn(snapshot):
		return "values written by this node are missing"
	}
	return ""
}

// knowsKubernetes reports whether Kubernetes values are known; a cluster always has some.
func (s *session) knowsKubernetes() bool {
	for key := range s.known.values {
		if strings.HasPrefix(key, models.KSRPrefix) {
			return true
		}
	}
	return false
}

func (s *session) hasKubernetes(snapshot []store.KV) bool {
	return slices.ContainsFunc(snapshot, func(kv store.KV) bool {
		i, ok := s.known.item(kv.Key)
		return ok && i.resource != nil
	})
}

// lostOwn reports whether values written by this agent are missing although Kubernetes still has
// the node.
func (s *session) lostOwn(snapshot []store.KV) bool {
	if !hasKey(snapshot, models.KSRPrefix+kubestate.NodeKey(s.Node)) {
		return false
	}
	for fullKey, value := range s.known.missing(snapshot) {
		if s.isOwn(fullKey, value) {
			return true
		}
	}
	return false
}

// recovering reports whether the snapshot must not be used yet.
func (s *session) recovering(snapshot []store.KV, revisions map[string]int64) bool {
	lowest := slices.Min(slices.Collect(maps.Values(revisions)))
	if reason := s.lost(snapshot, lowest); reason != "" {
		s.beginRecovery(reason)
	}
	s.lastRevision, s.snapshotRevision = lowest, 0
	s.origin.Identity = s.identityOfRemote()
	if s.recovery != nil {
		missing := s.known.missing(snapshot)
		maps.Copy(missing, s.known.unpublished(snapshot))
		if len(missing) > 0 && s.recovery.continues(!s.origin.Reflected || hasKey(snapshot, reflectedKey)) {
			s.restore(missing)
			return true
		}
		s.log.Info("Watching the database again", "missing", len(missing))
		s.recovery = nil
	}
	s.origin.Reflected = hasKey(snapshot, reflectedKey)
	s.snapshotRevision = lowest
	return false
}

func (w *Watcher) beginRecovery(reason string) {
	w.log.Error("Database lost its data; the node keeps its state until the data are restored", "reason", reason)
	w.recovery = &recovery{reason: reason, interval: recoveryInterval}
	w.setConnected(w.recovery.err())
	if timeout := w.Config.LostDatabaseTimeout.Std(); timeout > 0 {
		w.recovery.timeout = time.Now().Add(timeout)
	}
}

func (r *recovery) err() error { return dataLost(r.reason) }

// dataLost is the error of a database that lost its data; its text is how that was detected.
type dataLost string

func (d dataLost) Error() string {
	return d.what() + "; the node keeps its state until KSR has restored them"
}

func (d dataLost) what() string {
	return fmt.Sprintf("the database lost its data (%s), as if it was wiped or restored", string(d))
}

// deniedError returns the error to report for a database that denies access. A database that lost
// its data has no etcd users until KSR has restored them. It is detected by its revision; the node
// then starts from the mirror.
func (w *Watcher) deniedError(ctx context.Context, err error) error {
	remote, ok := w.Remote.(store.Dated)
	if !ok {
		return err
	}
	revision, revisionErr := remote.Revision(ctx)
	if revisionErr != nil {
		return err
	}
	if revision < w.lastRevision {
		w.beginRecovery(revisionWent(w.lastRevision, revision))
		w.lastRevision, w.snapshotRevision = revision, 0
	}
	if w.recovery == nil {
		return err
	}
	w.localResync(ctx)
	return w.recovery.err()
}

func revisionWent(from, to int64) string {
	return fmt.Sprintf("its revision went from %d to %d", from, to)
}

// continues reports whether to keep waiting for missing entries. filled: KSR has refilled the
// database or is not waited for.
func (r *recovery) continues(filled bool) bool {
	now := time.Now()
	switch {
	case !r.timeout.IsZero() && !now.Before(r.timeout):
		return false
	case !filled:
		r.end, r.interval = time.Time{}, recoveryInterval
		return true
	case r.end.IsZero():
		r.end = now.Add(recoveryPeriod)
		return true
	}
	r.interval = min(2*r.interval, maxRecoveryInterval, max(time.Until(r.end), time.Millisecond))
	return now.Before(r.end)
}

// waitsForKSR reports that the database is not refilled yet, without reading all of it.
func (s *session) waitsForKSR() bool {
	if s.recovery == nil || !s.recovery.end.IsZero() || !s.origin.Reflected {
		return false
	}
	if _, found, err := s.Remote.Get(s.ctx, reflectedKey); err != nil || found || !s.recovery.continues(false) {
		return false
	}
	s.restore(s.known.values)
	return true
}

func (s *session) isOwn(fullKey string, value proto.Message) bool {
	key, isKSR := strings.CutPrefix(fullKey, models.KSRPrefix)
	resource, ok := kubestate.ForKey(key)
	return isKSR && ok && resource.WrittenBy(s.Node, value)
}

func (s *session) restore(missing map[string]proto.Message) {
	for fullKey, value := range missing {
		if !s.isOwn(fullKey, value) {
			continue
		}
		data, err := kubestate.Marshal(value)
		if err == nil {
			err = s.restoreOne(fullKey, value, data)
		}
		if err != nil {
			s.log.Warn("Restoring a value in the database failed, retrying", "key", fullKey, "error", err)
		}
	}
}

// restoreOne writes an entry unless it exists with more than the ID: such an entry is newer.
func (s *session) restoreOne(fullKey string, value proto.Message, data []byte) error {
	put, err := s.Remote.PutIfNotExists(s.ctx, fullKey, data)
	if err != nil || put {
		return err
	}
	stored, found, err := s.Remote.Get(s.ctx, fullKey)
	if err == nil && found && isBare(stored.Value, value) {
		_, err = s.Remote.CompareAndSwap(s.ctx, fullKey, stored.Value, data)
	}
	return err
}

func hasKey(kvs []store.KV, key string) bool {
	return slices.ContainsFunc(kvs, func(kv store.KV) bool { return kv.Key == key })
}
