package dbwatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/store"
	"google.golang.org/protobuf/proto"
)

// A database that comes back empty, or with an old state, lacks pods and other nodes. Following it
// would cut all connections until it is filled again. The node therefore keeps its present state
// (at startup, the mirror) and restores the entries that it had written itself. It follows the
// database again
//
//  1. when the database has everything that the node knows; or
//  2. recoveryPeriod after KSR has filled it, so that other agents and users can restore
//     their entries: those still missing then were deleted. KSR has filled
//     it when dbresources.ReflectedKey exists, which KSR writes after it has written
//     everything else; if the database never had this key, KSR is not waited for; or
//  3. when LostDatabaseTimeout has passed, if that is set.
const (
	recoveryPeriod = 30 * time.Second
	// recoveryInterval is how often the database is read meanwhile: at first, and
	// while KSR has not filled it; then it doubles up to maxRecoveryInterval.
	recoveryInterval    = time.Second
	maxRecoveryInterval = 8 * time.Second
)

// errRevisionWentBack ends a session with a database that lost its data.
var errRevisionWentBack = errors.New("revision of the database went backwards: it was wiped or restored")

// reflectedKey is the full key of dbresources.ReflectedKey.
const reflectedKey = models.KSRPrefix + dbresources.ReflectedKey

// recovery is the time from the discovery that the database lost its data until it
// is believed again.
type recovery struct {
	// reason says how it was recognised.
	reason string
	// timeout is when LostDatabaseTimeout has passed; zero: never.
	timeout time.Time
	// end is recoveryPeriod after KSR was found to have filled the database; zero:
	// it has not.
	end      time.Time
	interval time.Duration
}

// lost describes how the database differs from the known one, or which data it lacks; "" if it does
// not.
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
		return "" // the following is known
	case s.origin.Reflected && !hasKey(snapshot, reflectedKey):
		return "what KSR had written is gone"
	case s.snapshotRevision == 0 && s.knowsKubernetes() && !s.tellsOfKubernetes(snapshot):
		return "it is empty"
	case s.snapshotRevision == 0 && s.ownIsGone(snapshot):
		return "what this node had written is gone"
	}
	return ""
}

// knowsKubernetes reports whether values of the Kubernetes state are known; a cluster always has
// some.
func (s *session) knowsKubernetes() bool {
	for key := range s.known.values {
		if strings.HasPrefix(key, models.KSRPrefix) {
			return true
		}
	}
	return false
}

// tellsOfKubernetes reports whether the snapshot has such values.
func (s *session) tellsOfKubernetes(snapshot []store.KV) bool {
	return slices.ContainsFunc(snapshot, func(kv store.KV) bool {
		i, ok := s.known.item(kv.Key)
		return ok && i.resource != nil
	})
}

// ownIsGone reports whether values are missing that this agent had written, although
// Kubernetes still has the node.
func (s *session) ownIsGone(snapshot []store.KV) bool {
	if !hasKey(snapshot, models.KSRPrefix+dbresources.NodeKey(s.Node)) {
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
		if len(missing) > 0 && s.recovery.goesOn(!s.origin.Reflected || hasKey(snapshot, reflectedKey)) {
			s.restore(missing)
			return true
		}
		s.log.Info("The database is complete again, or will not be", "missing", len(missing))
		s.recovery = nil
	}
	s.origin.Reflected = hasKey(snapshot, reflectedKey)
	s.snapshotRevision = lowest
	return false
}

func (w *Watcher) beginRecovery(reason string) {
	w.log.Error("The database lost its data: the node goes on with what it knows until the data are back", "reason", reason)
	w.recovery = &recovery{reason: reason, interval: recoveryInterval}
	w.setConnected(w.recovery.err())
	if timeout := w.Config.LostDatabaseTimeout.Std(); timeout > 0 {
		w.recovery.timeout = time.Now().Add(timeout)
	}
}

func (r *recovery) err() error { return dataLost(r.reason) }

// dataLost is the error of a database that lost its data, by how that was noticed.
type dataLost string

func (d dataLost) Error() string {
	return d.what() + ": the node goes on with what it knows until KSR has filled it again"
}

func (d dataLost) what() string {
	return fmt.Sprintf("the database lost its data (%s), as if it was wiped or restored", string(d))
}

// denied is what to tell of a database that does not let this node read. One that lost
// its data knows no node until KSR has filled it; its revision gives it away. The node
// then need not wait for its first resync.
func (w *Watcher) denied(ctx context.Context, err error) error {
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

// goesOn reports whether to keep waiting for missing entries. filled: KSR has filled the database,
// or need not.
func (r *recovery) goesOn(filled bool) bool {
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

// waitsForKSR tells, without reading all of the database, that it is not filled yet.
func (s *session) waitsForKSR() bool {
	if s.recovery == nil || !s.recovery.end.IsZero() || !s.origin.Reflected {
		return false
	}
	if _, found, err := s.Remote.Get(s.ctx, reflectedKey); err != nil || found || !s.recovery.goesOn(false) {
		return false
	}
	s.restore(s.known.values)
	return true
}

// isOwn reports whether this agent has written the value.
func (s *session) isOwn(fullKey string, value proto.Message) bool {
	key, isKSR := strings.CutPrefix(fullKey, models.KSRPrefix)
	resource, ok := dbresources.ForKey(key)
	return isKSR && ok && resource.WrittenBy(s.Node, value)
}

// restore writes the entries of this agent again.
func (s *session) restore(missing map[string]proto.Message) {
	for fullKey, value := range missing {
		if !s.isOwn(fullKey, value) {
			continue
		}
		data, err := dbresources.Marshal(value)
		if err == nil {
			err = s.restoreOne(fullKey, value, data)
		}
		if err != nil {
			s.log.Warn("Value cannot be written back to the database yet", "key", fullKey, "error", err)
		}
	}
}

// restoreOne replaces what KSR has written with the ID alone; what is more than that is newer.
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
