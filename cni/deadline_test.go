package cni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	api "github.com/contiv/contiv/api/contiv/cni"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDeadlines: no call waits for ever, neither for an agent that accepts no
// connection, though it listens, nor for one that does not answer.
func TestDeadlines(t *testing.T) {
	normal := maps.Clone(deadlines)
	t.Cleanup(func() { deadlines = normal })
	const config = `{"cniVersion":"1.1.0","name":"n","type":"contiv-cni","grpcServer":%q,"logFile":%q,"prevResult":{"cniVersion":"1.1.0"},"cni.dev/valid-attachments":[]}`
	for kind, socket := range map[string]string{"stopped": stoppedAgent(t), "silent": silentAgent(t)} {
		for command := range normal {
			deadlines = map[string]time.Duration{command: 50 * time.Millisecond}
			plugin := New(time.Now())
			funcs := map[string]func(*skel.CmdArgs) error{"ADD": plugin.add, "DEL": plugin.del, "CHECK": plugin.check, "STATUS": plugin.status, "GC": plugin.gc}
			err := funcs[command](&skel.CmdArgs{ContainerID: "c1", IfName: "eth0", StdinData: fmt.Appendf(nil, config, socket, filepath.Join(t.TempDir(), "log"))})
			want := types.ErrTryAgainLater
			if command == "STATUS" {
				want = types.ErrPluginNotAvailable
			}
			var failure *types.Error
			if !errors.As(err, &failure) || failure.Code != want {
				t.Errorf("%s, agent %s: %v, want code %d", command, kind, err, want)
			}
		}
	}
}

// stoppedAgent returns a socket on which nobody accepts connections.
func stoppedAgent(t *testing.T) string {
	return listenAt(t).Addr().String()
}

func listenAt(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "cni.sock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// silentAgent returns the socket of an agent that answers when it is stopped.
func silentAgent(t *testing.T) string {
	t.Helper()
	l := listenAt(t)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	api.RegisterRemoteCNIServer(server, api.UnimplementedRemoteCNIServer{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return l.Addr().String()
}
