package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// This test binary replaces the lab's binaries under their names: these tests cover the lab;
// test/integration covers Contiv.
func TestMain(m *testing.M) {
	standins := map[string]func() error{
		"contiv-etcd":  standinEtcd,
		"contiv-ksr":   func() error { return standinReady(strings.TrimPrefix(flagValue("--http"), "unix://")) },
		"contiv-agent": func() error { return standinReady(filepath.Join(flagValue("--run-dir"), "agent.sock")) },
		"contiv-cni":   standinCNI,
		"contiv-lab":   standinLab,
	}
	if run, ok := standins[filepath.Base(os.Args[0])]; ok {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func flagValue(name string) string {
	for i, arg := range os.Args {
		if arg == name {
			return os.Args[i+1]
		}
	}
	return ""
}

// behaviour reports whether the test enabled a behaviour of the binary with a file next to it.
func behaviour(name string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), name))
	return err == nil
}

func standinEtcd() error {
	if behaviour("contiv-etcd.dies") {
		return errors.New("contiv-etcd cannot find the flux capacitor")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", strings.TrimPrefix(flagValue("--listen-client"), "http://"))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, standinHealth{})
	go server.Serve(l)
	<-ctx.Done()
	server.Stop()
	return nil
}

type standinHealth struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (standinHealth) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if behaviour("contiv-etcd.unready") {
		return nil, status.Error(codes.Unavailable, "the warp core is cold")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

func standinReady(socket string) error {
	program := filepath.Base(os.Args[0])
	if behaviour(program + ".dies") {
		return fmt.Errorf("%s cannot find the flux capacitor", program)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Remove(socket)
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	answer := func(w http.ResponseWriter, _ *http.Request) {
		if behaviour(program + ".unready") {
			http.Error(w, `{"Error":"the warp core is cold"}`, http.StatusServiceUnavailable)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readiness", answer)
	mux.HandleFunc("/health", answer)
	go http.Serve(l, mux)
	<-ctx.Done()
	return nil
}

func standinCNI() error {
	self := filepath.Dir(os.Args[0])
	log, err := os.OpenFile(filepath.Join(self, "cni.calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "%s %s %s %s\n", os.Getenv("CNI_COMMAND"), os.Getenv("CNI_ARGS"), os.Getenv("CNI_NETNS"), own)
	switch {
	case os.Getenv("CNI_COMMAND") != "ADD":
	case behaviour("contiv-cni.fails"):
		fmt.Println(`{"cniVersion":"1.1.0","code":100,"msg":"the pod's tap is on fire"}`)
		os.Exit(1)
	default:
		fmt.Println(`{"cniVersion":"1.1.0","interfaces":[{"name":"eth0"}],"ips":[{"address":"10.1.1.2/32","interface":0}]}`)
	}
	return nil
}

func standinLab() error {
	opts := lab.Options{Name: flagValue("--name"), Root: flagValue("--root"), BinDir: filepath.Dir(os.Args[0]), PlainText: true}
	switch os.Args[1] {
	case lab.GuardCommand:
		return lab.RunGuard(os.Stdin, opts, lab.Down)
	case "up":
		_, err := lab.Up(context.Background(), opts)
		return err
	case "guarded-up":
		if _, err := lab.NewGuard(os.Args[0], opts); err != nil {
			return err
		}
		if _, err := lab.Up(context.Background(), opts); err != nil {
			return err
		}
		fmt.Println("up")
		select {}
	}
	return fmt.Errorf("unknown command %s", os.Args[1])
}

func requireRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a lab makes network namespaces; run the test as root")
	}
}

func binDir(t testing.TB, behaviours ...string) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"contiv-etcd", "contiv-ksr", "contiv-agent", "contiv-cni", "contivctl", "contiv-lab", "contiv-calico-routes"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range behaviours {
		setBehaviour(t, dir, b)
	}
	return dir
}

func setBehaviour(t testing.TB, binDir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(binDir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newName() string {
	names++
	return fmt.Sprintf("t%dx%d", os.Getpid(), names)
}

var names int

func options(t testing.TB, behaviours ...string) lab.Options {
	t.Helper()
	requireRoot(t)
	root, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	opts := lab.Options{
		Name: newName(), Root: root, BinDir: binDir(t, behaviours...),
		PlainText:    true, // stand-ins have no TLS
		StartTimeout: 60 * time.Second,
		Progress:     func(line string) { t.Log(line) },
	}
	t.Cleanup(func() {
		if err := lab.Down(context.Background(), opts); err != nil {
			t.Error(err)
		}
		os.RemoveAll(root)
	})
	return opts
}

func up(t testing.TB, opts lab.Options) *lab.Lab {
	t.Helper()
	l, err := lab.Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
