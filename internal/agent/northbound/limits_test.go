package northbound

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/internal/lib/listener"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// limited is a server that trusts the names of its clients. Its calls last until the clients end
// them.
type limited struct {
	configurator.UnimplementedConfiguratorServiceServer
	rpc.UnimplementedStatusServiceServer
	t        *testing.T
	ctx      context.Context
	listener *bufconn.Listener
	client   atomic.Value // name of the next client
	began    chan struct{}
}

func (l *limited) last(ctx context.Context) error {
	l.began <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (l *limited) Update(ctx context.Context, _ *configurator.UpdateRequest) (*configurator.UpdateResponse, error) {
	return nil, l.last(ctx)
}

func (l *limited) Dump(ctx context.Context, _ *configurator.DumpRequest) (*configurator.DumpResponse, error) {
	return nil, l.last(ctx)
}

func (l *limited) Watch(_ *rpc.StatusRequest, stream grpc.ServerStreamingServer[rpc.StatusResponse]) error {
	return l.last(stream.Context())
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	l := &limited{t: t, listener: bufconn.Listen(1 << 16), began: make(chan struct{}, 1)}
	s := NewServer(func(net.Conn) listener.Client {
		return listener.Client{Name: l.client.Load().(string), Role: listener.Configure}
	}, nil, slog.New(slog.DiscardHandler))
	configurator.RegisterConfiguratorServiceServer(s, l)
	rpc.RegisterStatusServiceServer(s, l)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l.listener) }()
	t.Cleanup(func() { s.Server.Stop(); <-served })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	l.ctx = ctx
	return l
}

func (l *limited) connect(client string) *grpc.ClientConn {
	l.t.Helper()
	l.client.Store(client)
	conn, err := grpc.NewClient("passthrough:agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.listener.DialContext(ctx) }))
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	if err := l.begin(conn, "/none/None"); err == nil { // establishes the connection
		l.t.Fatal("a method that does not exist was called")
	}
	return conn
}

// begin starts a call that lasts until the connection ends, or returns why it was rejected.
func (l *limited) begin(conn *grpc.ClientConn, method string) error {
	l.t.Helper()
	call, err := conn.NewStream(l.ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	call.SendMsg(&rpc.StatusRequest{}) // empty, valid for all methods
	call.CloseSend()
	ended := make(chan error, 1)
	go func() { ended <- call.RecvMsg(nil) }()
	select {
	case err := <-ended:
		return err
	case <-l.began:
		return nil
	}
}

// A client with too many endless calls gets an error, and other clients are served.
func TestCallsThatDoNotEnd(t *testing.T) {
	for method, what := range map[string]string{
		"/ligato.configurator.ConfiguratorService/Update": "changes",
		"/ligato.configurator.ConfiguratorService/Dump":   "read calls",
		"/rpc.StatusService/Watch":                        "watches and subscriptions",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLimited(t)
			conns := []*grpc.ClientConn{l.connect("greedy"), l.connect("greedy")}
			for i := range callsOfClient {
				if err := l.begin(conns[i%2], method); err != nil {
					t.Fatalf("call %d: %v", i, err)
				}
			}
			for _, conn := range conns {
				err := l.begin(conn, method)
				if want := fmt.Sprintf("greedy has %d %s in progress, the limit", callsOfClient, what); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
			if err := l.begin(l.connect("other"), method); err != nil {
				t.Errorf("another client: %v", err)
			}
			conns[0].Close() // ends half of them
			for l.begin(conns[1], method) != nil {
				if l.ctx.Err() != nil {
					t.Fatal("calls that ended are counted")
				}
			}
		})
	}
}

func TestConnectionsTooMany(t *testing.T) {
	l := newLimited(t)
	const reading = "/ligato.configurator.ConfiguratorService/Dump"
	var first *grpc.ClientConn
	for range newLimits().connections.Each {
		first = l.connect("greedy")
	}
	err := l.begin(l.connect("greedy"), reading)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "connections in progress") {
		t.Errorf("%v, want too many connections", err)
	}
	if err := l.begin(l.connect("other"), reading); err != nil {
		t.Errorf("another client: %v", err)
	}
	first.Close()
	for l.begin(l.connect("greedy"), reading) != nil {
		if l.ctx.Err() != nil {
			t.Fatal("connections that ended are counted")
		}
	}
}

// TCP clients do not use up the limits of the local socket.
func TestLimitsOfNetworks(t *testing.T) {
	p := newPerNetwork()
	if unix, tcp := p.at(&net.UnixAddr{Net: "unix"}), p.at(&net.TCPAddr{}); unix == tcp {
		t.Error("the socket and TCP have the same limits")
	}
	if all := 3 * callsOfClient; all >= streamsPerConnection {
		t.Errorf("a client with all its %d calls blocks without an error", all)
	}
}
