package northbound

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// LigatoClient is the name of ligato clients without one.
const LigatoClient = "grpc"

// SourceMetadata is the metadata key for the name of a ligato client.
const SourceMetadata = "datasrc"

// Options of ligato's services.
type Options struct {
	Clients Clients
	// Items returns the values of all clients with their labels.
	Items func() map[string]map[string]contivgrpc.Item
	// External returns the merged values of all external sources.
	External  func() controller.ExternalConfig
	Scheduler *kvscheduler.Scheduler
	// States reads the states of the vswitch's interfaces, with counters.
	States func(context.Context) ([]*vpp_interfaces.InterfaceState, error)
	Log    *slog.Logger
}

// Clients applies changes on behalf of clients. contivgrpc.Service implements it.
type Clients interface {
	Apply(ctx context.Context, c contivgrpc.Change) (controller.Outcome, error)
}

// Ligato implements the services of the ligato vpp-agent.
type Ligato struct {
	Options
	notifications *notifications
	// ended is closed when Run ends.
	ended chan struct{}
}

// NewLigato returns the services. Run must be running for Notify to send notifications.
func NewLigato(o Options) *Ligato {
	return &Ligato{Options: o, notifications: newNotifications(), ended: make(chan struct{})}
}

// Register registers the services with the server.
func (l *Ligato) Register(server grpc.ServiceRegistrar) {
	generic.RegisterManagerServiceServer(server, &manager{Ligato: l})
	generic.RegisterMetaServiceServer(server, &meta{})
	configurator.RegisterConfiguratorServiceServer(server, &configService{Ligato: l})
	configurator.RegisterStatsPollerServiceServer(server, &statsPoller{Ligato: l})
}

// newChange starts the change that a call requests.
func newChange(ctx context.Context) (contivgrpc.Change, error) {
	client := LigatoClient
	if source := metadata.ValueFromIncomingContext(ctx, SourceMetadata); len(source) > 0 {
		client = source[0]
	}
	options, err := contivgrpc.OptionsOf(ctx, client)
	if err != nil {
		return contivgrpc.Change{}, status.Error(codes.InvalidArgument, err.Error())
	}
	return contivgrpc.Change{Client: options.Client, Revert: options.Revert, Values: controller.ExternalConfig{}}, nil
}

// refused returns the error for an invalid request.
func refused(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// errEnds ends streams when the agent stops.
var errEnds = status.Error(codes.Unavailable, "the agent is stopping")
