package contivgrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// DefaultClient is the name of clients that send none.
const DefaultClient = "default"

const maxKey = 4096

var clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Change is a request of a client. It must not be modified afterwards.
type Change struct {
	Client string
	// Values by NB key; a nil value is deleted.
	Values controller.ExternalConfig
	// Labels of the values, by NB key.
	Labels map[string]map[string]string
	// Replace removes the client's other values.
	Replace bool
	// Full, with Replace, also reads the vswitch.
	Full bool
	// Revert applies all or nothing.
	Revert bool
}

// Service turns clients' requests into events.
type Service struct {
	source *Source
	loop   controller.EventLoop
	states States
	log    *slog.Logger
}

// States reports the states of values; implemented by the KVScheduler.
type States interface {
	ValueStatus(key string) *pb.BaseValueStatus
}

// NewService returns a service that sends events to the loop of the source.
func NewService(source *Source, loop controller.EventLoop, states States, log *slog.Logger) *Service {
	return &Service{source: source, loop: loop, states: states, log: log.With("plugin", Name)}
}

// Apply makes the change and waits until its transaction is final and, if accepted, saved.
// Unsupported values are no error unless Revert is set; their state is UNIMPLEMENTED. Errors have a
// gRPC status; that of a failed transaction has a rpc.TransactionError in its details. With the
// context of a gRPC call, it sets the event and transaction numbers in the response's metadata.
//
// If ctx ends before the event loop has taken the change, nothing happens. If it ends later, the
// change is completed, but its outcome is not reported.
func (s *Service) Apply(ctx context.Context, c Change) (controller.Outcome, error) {
	if err := c.validate(); err != nil {
		return controller.Outcome{}, status.Error(codes.InvalidArgument, shorten(err.Error(), maxText))
	}
	s.warn(ctx, c)
	type result struct {
		controller.Outcome
		saved <-chan error
	}
	processed := make(chan result, 1)
	request := &controller.ExternalRequest{OnOutcome: func(o controller.Outcome) {
		r := result{Outcome: o}
		if o.Accepted {
			r.saved = s.source.accept(c)
		}
		processed <- r
	}}
	if err := s.loop.PushEvent(ctx, c.event(request)); err != nil {
		return controller.Outcome{}, s.statusError(controller.Outcome{Err: err})
	}
	var r result
	select {
	case r = <-processed:
	case <-ctx.Done():
		if request.Withdraw() {
			return controller.Outcome{}, status.FromContextError(fmt.Errorf("nothing was changed, the request still waited for its turn: %w", ctx.Err())).Err()
		}
		return controller.Outcome{}, status.FromContextError(fmt.Errorf("the request is being carried out and will be completed: %w", ctx.Err())).Err()
	}
	setOutcome(ctx, r.Outcome)
	if r.Accepted {
		warnUnsupported(ctx, r.Err)
	}
	if r.saved != nil {
		if err := <-r.saved; err != nil {
			err = fmt.Errorf("the change is made, but not saved: it will be lost when the agent ends, unless it can be saved until then: %w", err)
			return r.Outcome, status.Error(codes.Internal, errors.Join(err, r.Err).Error())
		}
	}
	return r.Outcome, s.statusError(r.Outcome)
}

func (c *Change) event(request *controller.ExternalRequest) controller.Event {
	source := controller.ClientSource(Name, c.Client)
	if c.Replace && !c.Revert {
		return &controller.ExternalConfigResync{Source: source, Config: c.Values, Full: c.Full, Request: request}
	}
	return &controller.ExternalConfigChange{Source: source, Changes: c.Values, Replace: c.Replace, Revert: c.Revert, Request: request}
}

func (c *Change) validate() error {
	var errs []error
	if !clientName.MatchString(c.Client) {
		errs = append(errs, fmt.Errorf("%q cannot be the name of a client: up to 63 letters, digits, dots, dashes and underscores, a letter or digit first", c.Client))
	}
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		errs = append(errs, validateKey(key, c.Values[key]))
	}
	return errors.Join(errs...)
}

func validateKey(key string, value proto.Message) error {
	if len(key) > maxKey {
		return fmt.Errorf("key %.64q… has %d bytes: at most %d are allowed", key, len(key), maxKey)
	}
	model, ok := models.ForKey(key)
	switch {
	case !ok:
		return fmt.Errorf("key %q matches no model: set the fields that name the value", key)
	case value == nil:
		return nil
	case model.ProtoName() != string(proto.MessageName(value)):
		return fmt.Errorf("value of key %q is a %s, not a %s", key, proto.MessageName(value), model.ProtoName())
	}
	if is := model.Key(value); is != key {
		return fmt.Errorf("value of key %q belongs to %q", key, is)
	}
	return nil
}
