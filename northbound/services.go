package northbound

import (
	"context"
	"log/slog"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/plugins/contivgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// LigatoClient is the name of clients of ligato's services that do not tell theirs.
const LigatoClient = "grpc"

// SourceMetadata is how ligato's clients tell their name.
const SourceMetadata = "datasrc"

// Options of ligato's services.
type Options struct {
	// Clients makes changes.
	Clients Clients
	// Items are the values of all clients, with their labels.
	Items func() map[string]map[string]contivgrpc.Item
	// External are the values of all external sources, merged.
	External  func() controller.ExternalConfig
	Scheduler *kvscheduler.Scheduler
	// States reads the states of the interfaces of the vswitch, with counters.
	States func(context.Context) ([]*vpp_interfaces.InterfaceState, error)
	Log    *slog.Logger
}

// Clients makes changes on behalf of clients: contivgrpc.Service.
type Clients interface {
	Apply(ctx context.Context, c contivgrpc.Change) (controller.Outcome, error)
}

// Ligato is the services of the ligato vpp-agent.
type Ligato struct {
	Options
	notifications *notifications
	// ended is closed when Run has ended.
	ended chan struct{}
}

// NewLigato returns the services. Run lets Notify have something to tell.
func NewLigato(o Options) *Ligato {
	return &Ligato{Options: o, notifications: newNotifications(), ended: make(chan struct{})}
}

// Register makes the server serve the services.
func (l *Ligato) Register(server grpc.ServiceRegistrar) {
	generic.RegisterManagerServiceServer(server, &manager{Ligato: l})
	generic.RegisterMetaServiceServer(server, &meta{})
	configurator.RegisterConfiguratorServiceServer(server, &configService{Ligato: l})
	configurator.RegisterStatsPollerServiceServer(server, &statsPoller{Ligato: l})
}

// newChange begins the change that a call requests.
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

// refused is the answer to requests that cannot be understood.
func refused(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// errEnds is the end of streams that go on as long as the agent.
var errEnds = status.Error(codes.Unavailable, "the agent ends")
