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
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// DefaultClient is the name of clients that do not tell theirs.
const DefaultClient = "default"

// maxKey is the length of the longest key, in bytes.
const maxKey = 4096

var clientName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Change is what a client requests. It must not be changed afterwards.
type Change struct {
	Client string
	// Values by NB key; nil: to be removed.
	Values controller.ExternalConfig
	// Labels of the values, by NB key.
	Labels map[string]map[string]string
	// Replace removes the client's other values.
	Replace bool
	// Full, with Replace, has the vswitch read, too.
	Full bool
	// Revert does all of it or nothing.
	Revert bool
}

// Service turns requests of clients into events.
type Service struct {
	source *Source
	loop   controller.EventLoop
	states States
	log    *slog.Logger
}

// States tells how values are: the KVScheduler.
type States interface {
	ValueStatus(key string) *pb.BaseValueStatus
}

// NewService returns a service that sends its events to the loop, to which the
// source belongs.
func NewService(source *Source, loop controller.EventLoop, states States, log *slog.Logger) *Service {
	return &Service{source: source, loop: loop, states: states, log: log.With("plugin", Name)}
}

// Apply makes the change, waits until its transaction is final and, if the change was accepted,
// saved. What the vswitch cannot do is no error, unless all was to be reverted: the states of such
// values say UNIMPLEMENTED. Errors have a gRPC status; that of a failed transaction has a
// rpc.TransactionError in its details. With the context of a gRPC call, the metadata of its answer
// identify the event and the transaction.
//
// When ctx ends before the event loop has taken the change, nothing happens; after
// that, the change is completed, but its outcome is not told.
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
	tellOutcome(ctx, r.Outcome)
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

// validate checks the form, all of it: the agent's models check the values themselves.
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
