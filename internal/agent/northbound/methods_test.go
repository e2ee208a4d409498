package northbound

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// An unauthorised client gets its error before its request, which may be large, is read. Unknown
// methods are reported as such.
func TestRefusedBeforeTheRequest(t *testing.T) {
	s := NewServer(func(net.Conn) listener.Client { return listener.Client{Name: "reader", Role: listener.Read} }, nil, slog.New(slog.DiscardHandler))
	(&contivgrpc.Service{}).Register(s)
	(&Ligato{}).Register(s)
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() { s.Server.Stop(); <-served }()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for method, want := range map[string]codes.Code{"Update": codes.PermissionDenied, "None": codes.Unimplemented} {
		call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/ligato.configurator.ConfiguratorService/"+method)
		if err == nil {
			err = call.RecvMsg(nil) // nothing has been sent
		}
		if got := status.Code(err); got != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
	if _, err := generic.NewMetaServiceClient(conn).KnownModels(ctx, &generic.KnownModelsRequest{}); err != nil {
		t.Errorf("an allowed method: %v", err)
	}
}

// Each method is either a change, by its name, or listed as read-only.
func TestMethodsThatChangeNothing(t *testing.T) {
	s := NewServer(listener.Options{}.Client, nil, slog.New(slog.DiscardHandler))
	defer s.Server.Stop()
	(&contivgrpc.Service{}).Register(s)
	(&Ligato{}).Register(s)
	(&StatusService{}).Register(s)
	changing := strings.Fields("Put Del Resync SetConfig Update Delete")
	served := map[string]bool{}
	for service, info := range s.GetServiceInfo() {
		for _, method := range info.Methods {
			name := "/" + service + "/" + method.Name
			served[name] = true
			changes := false
			for _, c := range changing {
				changes = changes || method.Name == c
			}
			if changes == reads[name] {
				t.Errorf("%s: changes %v, known to change nothing %v", name, changes, reads[name])
			}
		}
	}
	for name := range reads {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}
