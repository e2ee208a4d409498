package cni

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDeadlines(t *testing.T) {
	normal := maps.Clone(deadlines)
	t.Cleanup(func() { deadlines = normal })
	const deadline = 250 * time.Millisecond // enough time for the agent to read the call
	const config = `{"cniVersion":"1.1.0","name":"n","type":"contiv-cni","grpcServer":%q,"logFile":%q,"prevResult":{"cniVersion":"1.1.0"},"cni.dev/valid-attachments":[]}`
	for kind, socket := range map[string]string{"stopped": stoppedAgent(t), "silent": silentAgent(t, deadline)} {
		for command := range normal {
			deadlines = map[string]time.Duration{command: deadline}
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

func silentAgent(t *testing.T, deadline time.Duration) string {
	t.Helper()
	l := listenAt(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				var call cniwire.Call
				if err := cniwire.Read(conn, &call); err != nil || call.TimeoutNs <= 0 || call.TimeoutNs >= deadline.Nanoseconds() {
					t.Errorf("call with a time of %d ns, %v", call.TimeoutNs, err)
				}
				conn.Read(make([]byte, 1)) // until the caller closes
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return l.Addr().String()
}
