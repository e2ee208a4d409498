package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// spacePeriod is how often etcd is asked whether it is full; each time is an entry in its log.
const spacePeriod = time.Minute

// space remembers whether etcd has space.
type space struct {
	mu    sync.Mutex
	full  bool
	asked time.Time
}

// wrote learns from a write, which is not a deletion.
func (s *space) wrote(err error) {
	if err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = err != nil
}

var errFull = errors.New("etcd is full and refuses what is new: delete what is not needed in it, or raise its quota (contiv-etcd --quota-mib, etcd.quotaMiB of the chart)")

// Full says what to do if etcd refuses writes because its quota is used up; nil: it does not, or
// cannot be asked. It asks once in a minute, and whenever etcd was full.
func (s *Store) Full(ctx context.Context) error {
	s.space.mu.Lock()
	full, due := s.space.full, time.Since(s.space.asked) >= spacePeriod
	s.space.mu.Unlock()
	if full || due {
		ctx, cancel := s.callContext(ctx)
		defer cancel()
		if answer, err := s.client.AlarmList(ctx); err == nil {
			full = false
			for _, alarm := range answer.Alarms {
				full = full || alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
			}
			s.space.mu.Lock()
			s.space.full, s.space.asked = full, time.Now()
			s.space.mu.Unlock()
		}
	}
	if full {
		return errFull
	}
	return nil
}
