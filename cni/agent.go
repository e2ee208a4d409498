package cni

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	api "github.com/contiv/contiv/api/contiv/cni"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// errUnreachable is wrapped when nobody accepts connections at the agent's
// address.
var errUnreachable = errors.New("the Contiv agent of this node is not reachable")

// callAgent makes one call.
func callAgent(ctx context.Context, server string, call func(context.Context, api.RemoteCNIClient) error) error {
	dialer := &dialer{network: "tcp"}
	if strings.HasPrefix(server, "/") {
		dialer.network = "unix"
	}
	conn, err := grpc.NewClient("passthrough:///"+server,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithContextDialer(dialer.dial))
	if err != nil {
		return fmt.Errorf(`"grpcServer" %q: %w`, server, err)
	}
	defer conn.Close()
	err = call(ctx, api.NewRemoteCNIClient(conn))
	if dialErr := dialer.failure(); dialErr != nil && status.Code(err) == codes.Unavailable {
		return fmt.Errorf("%w at %s: %w; check that it runs, and that \"grpcServer\" is the path of its socket", errUnreachable, server, dialErr)
	}
	return err
}

// AgentStatus asks the agent at the address, a path or host:port, for its status.
func AgentStatus(ctx context.Context, server string) (reply *api.StatusReply, err error) {
	err = callAgent(ctx, server, func(ctx context.Context, agent api.RemoteCNIClient) (err error) {
		reply, err = agent.Status(ctx, &api.StatusRequest{})
		return err
	})
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
