package northbound

import (
	"slices"
	"strings"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/api/contiv/rpc"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// statusBatch bounds the number of statuses in a message, so that clients need not allow for large
// messages.
const statusBatch = 500

// StatusService implements rpc.StatusService.
type StatusService struct {
	rpc.UnsafeStatusServiceServer
	scheduler *kvscheduler.Scheduler
	ended     <-chan struct{}
}

// NewStatusService returns a service. Its calls end when ended is closed.
func NewStatusService(scheduler *kvscheduler.Scheduler, ended <-chan struct{}) *StatusService {
	return &StatusService{scheduler: scheduler, ended: ended}
}

// Register registers the service with the server.
func (s *StatusService) Register(server grpc.ServiceRegistrar) {
	rpc.RegisterStatusServiceServer(server, s)
}

// selection lists the requested keys, and prefixes that end with a slash. An empty selection
// selects everything.
type selection []string

func newSelection(keys []string) (selection, error) {
	for i, key := range keys {
		if !strings.HasPrefix(key, valuePrefix) {
			return nil, refused("keys[%d]: %q is not the key of a value: keys begin with %s", i, key, valuePrefix)
		}
		if strings.HasSuffix(key, "/") {
			continue
		}
		if err := models.CheckKey(key); err != nil {
			return nil, refused("keys[%d]: %v", i, err)
		}
	}
	return keys, nil
}

// valuePrefix starts the keys of all values that can be requested.
const valuePrefix = "config/"

func (s selection) has(key string) bool {
	return len(s) == 0 || slices.ContainsFunc(s, func(want string) bool {
		return key == want || strings.HasSuffix(want, "/") && strings.HasPrefix(key, want)
	})
}

// Watch sends the current statuses and, if the client follows, their changes.
func (s *StatusService) Watch(r *rpc.StatusRequest, stream grpc.ServerStreamingServer[rpc.StatusResponse]) error {
	selected, err := newSelection(r.GetKeys())
	if err != nil {
		return err
	}
	watcher, all := s.scheduler.Watch(valuePrefix)
	if err := s.send(stream, s.present(selected, all)); err != nil || !r.GetFollow() {
		return err
	}
	return follow(stream.Context(), s.ended, watcher, func(events []kvscheduler.StatusEvent) error {
		return s.send(stream, s.changed(selected, events))
	})
}

// present returns the statuses of the selected values. Single keys are always included.
func (s *StatusService) present(selected selection, all []*pb.BaseValueStatus) (statuses []*feedbackpb.ValueStatus) {
	sent := make(map[string]bool)
	for _, base := range all {
		if key := base.GetValue().GetKey(); selected.has(key) {
			statuses = append(statuses, s.status(base))
			sent[key] = true
		}
	}
	for _, key := range selected {
		if !sent[key] && !strings.HasSuffix(key, "/") {
			statuses = append(statuses, s.status(s.scheduler.ValueStatus(key)))
			sent[key] = true
		}
	}
	return statuses
}

// changed returns the last status of each value in the events.
func (s *StatusService) changed(selected selection, events []kvscheduler.StatusEvent) (statuses []*feedbackpb.ValueStatus) {
	place := make(map[string]int)
	for _, e := range events {
		key := e.Status.GetValue().GetKey()
		if !selected.has(key) {
			continue
		}
		status := s.status(e.Status)
		status.Transaction = proto.Uint64(e.Txn)
		if i, again := place[key]; again {
			statuses[i] = status
			continue
		}
		place[key] = len(statuses)
		statuses = append(statuses, status)
	}
	return statuses
}

func (s *StatusService) status(base *pb.BaseValueStatus) *feedbackpb.ValueStatus {
	return &feedbackpb.ValueStatus{Value: base.GetValue(), DerivedValues: base.GetDerivedValues(), WaitsFor: feedback.WaitsFor(base, s.scheduler)}
}

func (s *StatusService) send(stream grpc.ServerStreamingServer[rpc.StatusResponse], statuses []*feedbackpb.ValueStatus) error {
	for batch := range slices.Chunk(statuses, statusBatch) {
		if err := stream.Send(&rpc.StatusResponse{Statuses: batch}); err != nil {
			return err
		}
	}
	return nil
}
