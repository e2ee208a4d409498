package server

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

const maintainPeriod = 10 * time.Second

// maintain frees space. The database file never shrinks by itself, and its size counts for the
// quota:
//
//	half of the quota, and half of the file is free   defragment
//	nearly full, and a tenth of the quota is free     defragment
//	full: etcd refuses writes                         compact all old revisions, defragment, and
//	                                                  allow writes again if that made space
//
// Requests wait during a defragmentation.
func (s *Server) maintain(ctx context.Context, quota int64, period time.Duration) {
	toldFull := false
	tried := int64(-1) // revision at which nothing was gained
	for {
		full, err := s.makeSpace(ctx, quota, tried)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("Maintenance of the etcd database failed", "error", err)
		case full && !toldFull:
			s.log.Error("etcd is full and refuses writes: delete unneeded keys, or raise --quota-mib", "inUseMiB", s.etcd.Server.Backend().SizeInUse()>>20, "quotaMiB", quota>>20)
		}
		toldFull, tried = full && err == nil, -1
		if toldFull {
			tried = s.etcd.Server.KV().Rev()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(period):
		}
	}
}

// makeSpace reports whether etcd remains full. It does nothing if etcd was full at the revision
// tried.
func (s *Server) makeSpace(ctx context.Context, quota, tried int64) (full bool, err error) {
	server := s.etcd.Server
	for _, alarm := range server.Alarms() {
		full = full || alarm.Alarm == pb.AlarmType_NOSPACE && alarm.MemberID == uint64(server.MemberID())
	}
	before, inUse := server.Backend().Size(), server.Backend().SizeInUse()
	halfFree := before >= quota/2 && inUse <= before/2
	nearlyFull := before >= quota/100*nearFull && before-inUse >= quota/10
	if !full && !halfFree && !nearlyFull {
		return false, nil
	}
	if full {
		if server.KV().Rev() == tried {
			return true, nil
		}
		if err := s.forgetRevisions(ctx); err != nil {
			return true, fmt.Errorf("compact old revisions: %w", err)
		}
	}
	start := time.Now()
	if err := server.Defragment(); err != nil {
		return full, fmt.Errorf("defragment: %w", err)
	}
	now := server.Backend().Size()
	s.log.Info("etcd database defragmented", "beforeMiB", before>>20, "afterMiB", now>>20, "duration", time.Since(start))
	if !full || now > quota-quota/10 {
		return full, nil
	}
	if _, err := server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: uint64(server.MemberID()), Alarm: pb.AlarmType_NOSPACE}); err != nil {
		return full, fmt.Errorf("allow writes again: %w", err)
	}
	s.log.Warn("etcd has free space again", "sizeMiB", now>>20, "quotaMiB", quota>>20)
	return false, nil
}

func (s *Server) forgetRevisions(ctx context.Context) error {
	kv := s.etcd.Server.KV()
	revision := kv.Rev()
	if kv.FirstRev() >= revision {
		return nil
	}
	_, err := s.etcd.Server.Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
	if err == nil && s.limits != nil {
		s.limits.ledger.forget()
	}
	return err
}
