package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	api "github.com/contiv/contiv/api/contiv/cni"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// callTimeout is the deadline of one call, connecting included. Runtimes wait
// longer.
const callTimeout = 60 * time.Second

// errUnreachable is wrapped when nobody accepts connections at the agent's
// address.
var errUnreachable = errors.New("the Contiv agent of this node is not reachable")

// method is a call of the agent.
type method func(api.RemoteCNIClient, context.Context, *api.CNIRequest, ...grpc.CallOption) (*api.CNIReply, error)

// callAgent makes one call.
func callAgent(server string, call method, request *api.CNIRequest) (*api.CNIReply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	dialer := &dialer{network: "tcp"}
	if strings.HasPrefix(server, "/") {
		dialer.network = "unix"
	}
	conn, err := grpc.NewClient("passthrough:///"+server,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithContextDialer(dialer.dial))
	if err != nil {
		return nil, fmt.Errorf(`"grpcServer" %q: %w`, server, err)
	}
	defer conn.Close()
	reply, err := call(api.NewRemoteCNIClient(conn), ctx, request)
	if dialErr := dialer.failure(); dialErr != nil && status.Code(err) == codes.Unavailable {
		return nil, fmt.Errorf("%w at %s: %w; check that it runs, and that \"grpcServer\" is the path of its socket", errUnreachable, server, dialErr)
	}
	return reply, err
}

// dialer remembers whether the address could be connected to.
type dialer struct {
	network string
	mu      sync.Mutex
	err     error
}

func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, d.network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return conn, err
}

func (d *dialer) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
