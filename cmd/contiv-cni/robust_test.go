package main_test

import (
	encoding "encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	contivcni "github.com/contiv/contiv/internal/cni"
	"github.com/contiv/contiv/internal/lib/logline"
	"google.golang.org/grpc"
)

// The linked packages determine how long contiv-cni takes to start, and every pod waits for it.
func TestItLinksNoNetworkStack(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("too few packages: %v", packages)
	}
	for _, p := range packages {
		for _, heavy := range []string{"google.golang.org/", "go.opentelemetry.io/", "net/http", "crypto/tls", "go.etcd.io/", "k8s.io/", "github.com/contiv/contiv/client"} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("contiv-cni links %s", p)
			}
		}
	}
}

// brokenAgent serves connections with a function, then closes them.
func brokenAgent(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "cni.sock"))
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return l.Addr().String()
}

// If an agent dies during a call or sends garbage, the error asks for a retry. DEL must not succeed
// then, because its outcome is unknown.
func TestBrokenAgents(t *testing.T) {
	readCall := func(conn net.Conn) {
		var head [8]byte // of either protocol
		_, err := io.ReadFull(conn, head[:])
		if err == nil {
			_, err = io.CopyN(io.Discard, conn, int64(encoding.BigEndian.Uint32(head[4:])))
		}
		if err != nil {
			t.Error(err)
		}
	}
	commands := map[string]map[string]any{
		"ADD": nil, "DEL": nil, "CHECK": {"prevResult": map[string]any{"cniVersion": "1.1.0"}}, "STATUS": nil, "GC": {"cni.dev/valid-attachments": []any{}},
	}
	for name, test := range map[string]struct {
		serve func(net.Conn)
		code  uint
		want  string
	}{
		"killed before it reads": {func(net.Conn) {}, 11, "closed the connection"},
		"killed during the call": {readCall, 11, "closed the connection"},
		"killed while it answers": {func(conn net.Conn) {
			readCall(conn)
			fmt.Fprintf(conn, "%s\x00\x00\x01\x00{", cniwire.Magic)
		}, 11, "closed the connection"},
		"of a newer kind": {func(conn net.Conn) {
			readCall(conn)
			cniwire.Write(conn, map[string]any{"reply": map[string]any{"ready": true, "more": 1}, "more": []int{1}})
		}, 0, ""},
		"without a reply": {func(conn net.Conn) {
			readCall(conn)
			cniwire.Write(conn, &cniwire.Answer{})
		}, 100, "read the agent's reply"},
		"too talkative": {func(conn net.Conn) {
			readCall(conn)
			fmt.Fprintf(conn, "%s\xff\xff\xff\xff", cniwire.Magic)
		}, 11, "at most"},
	} {
		for command, config := range commands {
			t.Run(name+"/"+command, func(t *testing.T) {
				want := test.code
				if command == "STATUS" && want != 0 {
					want = 50
				}
				_, failure := call{command: command, socket: brokenAgent(t, test.serve), config: config}.run(t)
				switch {
				case want == 0 && failure != nil:
					t.Errorf("failed: %+v", failure)
				case want != 0 && (failure == nil || failure.Code != want || !strings.Contains(failure.Msg+failure.Details, test.want)):
					t.Errorf("got %+v, want code %d with %q", failure, want, test.want)
				}
			})
		}
	}
}

// An agent without this protocol causes an error that asks for a retry after its update.
func TestOlderAgent(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "cni.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	cni.RegisterRemoteCNIServer(server, &agent{})
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	for command, code := range map[string]uint{"ADD": 11, "DEL": 11, "STATUS": 50} {
		_, failure := call{command: command, socket: l.Addr().String()}.run(t)
		if failure == nil || failure.Code != code || !strings.Contains(failure.Details, "older than contiv-cni") {
			t.Errorf("%s: %+v", command, failure)
		}
	}
}

func TestLargeConfigurations(t *testing.T) {
	a := &agent{reply: podReply()}
	socket := listen(t, a)
	if _, failure := (call{command: "ADD", socket: socket, config: map[string]any{"x": strings.Repeat("\"", 500_000)}}).run(t); failure != nil {
		t.Errorf("1 MB: %+v", failure)
	} else if len(a.last.ExtraNwConfig) < 1_000_000 {
		t.Errorf("the agent got %d bytes", len(a.last.ExtraNwConfig))
	}
	for _, text := range []string{strings.Repeat("x", 4_200_000), strings.Repeat("\"", 2_500_000), strings.Repeat("x", 20_000_000)} {
		_, failure := call{command: "ADD", socket: socket, config: map[string]any{"x": text}}.run(t)
		if failure == nil || failure.Code != 7 || !strings.Contains(failure.Msg, "too large") {
			t.Errorf("%d bytes: %+v", len(text), failure)
		}
	}
}

// Oversized input from runtimes and agents reaches neither the log, nor the file of timings, nor
// the runtime.
func TestWhatIsLoggedIsBounded(t *testing.T) {
	huge := strings.Repeat("x", 100_000) // one environment variable holds 128 KiB at most
	dir := t.TempDir()
	log, timing := filepath.Join(dir, "cni.log"), filepath.Join(dir, "timing")
	a := &agent{reply: &cni.CNIReply{Result: 1, Error: strings.Repeat("\x1b[2J", 1<<18)}}
	for _, command := range []string{"ADD", "DEL"} {
		_, failure := call{command: command, socket: listen(t, a), config: map[string]any{"logFile": log}, env: []string{
			"CNI_CONTAINERID=" + huge, "CNI_NETNS=/var/run/netns/" + huge, "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAME=" + huge, contivcni.TimingEnv + "=" + timing,
		}}.run(t)
		if failure == nil || len(failure.Msg)+len(failure.Details) > 2*logline.Longest+200 || !strings.Contains(failure.Details, "1048576 bytes") {
			t.Errorf("%s: %.300v", command, failure)
		}
	}
	for file, most := range map[string]int{log: 200_000, timing: 20_000} {
		data, err := os.ReadFile(file)
		if err != nil || len(data) == 0 || len(data) > most || strings.Contains(string(data), "\x1b") {
			t.Errorf("%s has %d bytes: %v", filepath.Base(file), len(data), err)
		}
	}
}
