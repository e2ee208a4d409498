package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// spacePeriod is how often etcd is asked whether it is full; each time is an entry in its log.
const spacePeriod = time.Minute

// space remembers whether etcd has space.
type space struct {
	mu sync.Mutex
	spaceAnswer
}

// spaceAnswer is what etcd has answered, or what followed from a write since.
type spaceAnswer struct {
	asked           time.Time
	full, unlimited bool
	refused         string
}

func (s *space) snapshot() spaceAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spaceAnswer
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

var errFull = errors.New("etcd is full and refuses writes: delete unneeded keys, or raise its quota (contiv-etcd --quota-mib, etcd.quotaMiB of the chart)")

// Full says what to do if etcd refuses writes because its quota is used up; nil: it does not, or
// cannot be asked. It asks once in a minute, and whenever etcd was full.
func (s *Store) Full(ctx context.Context) error {
	if s.askForSpace(ctx); s.space.snapshot().full {
		return errFull
	}
	return nil
}

// Headers of contiv-etcd's answer to AlarmList: it limits what each user has, and which user has reached a limit.
const (
	LimitsHeader  = "contiv-etcd-limits"
	RefusedHeader = "contiv-etcd-refused"
)

// Limits reports that this etcd lets any client with a certificate fill it (unlimited), or which user it refuses because of a limit, and why. It
// asks like Full; if etcd cannot be asked, both are empty.
func (s *Store) Limits(ctx context.Context) (unlimited bool, refused string) {
	s.askForSpace(ctx)
	now := s.space.snapshot()
	return now.unlimited, now.refused
}

// askForSpace asks etcd if the last answer is old, or was that something is refused.
func (s *Store) askForSpace(ctx context.Context) {
	last := s.space.snapshot()
	if !last.full && last.refused == "" && time.Since(last.asked) < spacePeriod {
		return
	}
	ctx, cancel := s.callContext(ctx)
	defer cancel()
	var header metadata.MD
	answer, err := etcdserverpb.NewMaintenanceClient(s.client.ActiveConnection()).
		Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_GET, Alarm: etcdserverpb.AlarmType_NONE}, grpc.Header(&header))
	if err != nil {
		return
	}
	now := spaceAnswer{asked: time.Now(), unlimited: len(header.Get(LimitsHeader)) == 0, refused: strings.Join(header.Get(RefusedHeader), "; ")}
	for _, alarm := range answer.Alarms {
		now.full = now.full || alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
	}
	s.space.mu.Lock()
	defer s.space.mu.Unlock()
	s.space.spaceAnswer = now
}
