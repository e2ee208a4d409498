package dbwatcher

import (
	"errors"
	"strings"
	"time"

	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/store"
	"google.golang.org/protobuf/proto"
)

const (
	// recoveryPeriod is how long a database that lost its data may take to be filled
	// again, by KSR and all agents, before its content is believed.
	recoveryPeriod = 30 * time.Second
	// recoveryInterval is how often it is read meanwhile.
	recoveryInterval = time.Second
)

// errRevisionWentBack ends a session with a database that lost its data.
var errRevisionWentBack = errors.New("revision of the database went backwards: it was wiped or restored")

// recovering tells if the snapshot must not be used yet. A database that comes back
// empty says that there are no pods and no other nodes: believing it would cut
// all connections until it is filled again. So the node goes on with what it
// knows, puts back what it had written itself, and waits until nothing is missing, or
// recoveryPeriod has passed.
func (s *session) recovering(snapshot []store.KV, revisions map[string]int64) bool {
	lowest := min(revisions[models.KSRPrefix], revisions[s.known.nodePrefix])
	if lowest < s.lastRevision || s.known.contradicts(snapshot, s.snapshotRevision) {
		s.log.Error("The database lost its data: the node goes on with what it knows until the data are back",
			"revision", lowest, "before", s.lastRevision, "atMost", recoveryPeriod)
		s.recoveryEnd = time.Now().Add(recoveryPeriod)
		s.setConnected(errRevisionWentBack)
	}
	s.lastRevision, s.snapshotRevision = lowest, 0
	if !s.recoveryEnd.IsZero() {
		missing := s.known.missing(snapshot)
		if len(missing) > 0 && time.Now().Before(s.recoveryEnd) {
			s.restore(missing)
			return true
		}
		s.log.Info("The database is complete again, or will not be", "missing", len(missing))
		s.recoveryEnd = time.Time{}
	}
	s.snapshotRevision = lowest
	return false
}

// restore writes back what this agent had written.
func (s *session) restore(missing map[string]proto.Message) {
	for fullKey, value := range missing {
		key, isKSR := strings.CutPrefix(fullKey, models.KSRPrefix)
		resource, ok := dbresources.ForKey(key)
		if !isKSR || !ok || !resource.WrittenBy(s.Node, value) {
			continue
		}
		data, err := dbresources.Marshal(value)
		if err == nil {
			_, err = s.Remote.PutIfNotExists(s.ctx, fullKey, data)
		}
		if err != nil {
			s.log.Warn("Value cannot be written back to the database yet", "key", fullKey, "error", err)
		}
	}
}
