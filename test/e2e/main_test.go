package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/e2e"
)

// The environment that make e2e sets.
const (
	cacheVariable = "CONTIV_E2E_CACHE" // directory of Kubernetes' and Debian's programs
	binVariable   = "CONTIV_E2E_BIN"   // directory of Contiv's programs, default bin
	keepVariable  = "CONTIV_E2E_KEEP"  // if set, the cluster stays: its name
	guardVariable = "CONTIV_E2E_GUARD" // the cluster that this process guards
)

// cluster is shared by all tests; nil: skip.
var cluster *e2e.Cluster

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if name := os.Getenv(guardVariable); name != "" {
		return guard(name)
	}
	cache := os.Getenv(cacheVariable)
	if cache == "" {
		return m.Run()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	name := fmt.Sprintf("e%d", os.Getpid())
	keep := os.Getenv(keepVariable)
	if keep != "" {
		name = keep
	}
	release, err := startGuard(name, keep == "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := runWith(ctx, m, cache, name, keep != "")
	release()
	return code
}

func runWith(ctx context.Context, m *testing.M, cache, name string, keep bool) int {
	bin := os.Getenv(binVariable)
	if bin == "" {
		bin, _ = filepath.Abs("../../bin")
	}
	manifests, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	start := time.Now()
	progress := func(line string) { fmt.Printf("%7.1fs  %s\n", time.Since(start).Seconds(), line) }
	cluster, err = e2e.Up(ctx, e2e.Options{
		Name: name, Nodes: 2, BinDir: bin, Manifests: manifests,
		KubernetesDir: filepath.Join(cache, "kubernetes"), DebianDir: filepath.Join(cache, "debian"),
		Progress: progress,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 1
	if err := cluster.Install(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		fmt.Fprintln(os.Stderr, diagnosis())
	} else if progress("the cluster is ready"); ctx.Err() == nil {
		code = m.Run()
	}
	if keep {
		fmt.Printf("the cluster stays: KUBECONFIG=%s/pki/admin.kubeconfig ip netns exec %s-underlay kubectl …\n", cluster.Dir(), name)
		return code
	}
	progress("removing the cluster")
	if err := e2e.Down(context.WithoutCancel(ctx), name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	progress("removed")
	return code
}

// startGuard starts this program as a guard, which removes the cluster should this
// process die in whatever way.
func startGuard(name string, wanted bool) (release func(), err error) {
	if !wanted {
		return func() {}, nil
	}
	guard := exec.Command(os.Args[0])
	guard.Env = append(os.Environ(), guardVariable+"="+name)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from the terminal's signals
	pipe, err := guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := guard.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard of the cluster: %w", err)
	}
	return func() {
		pipe.Write([]byte{1})
		pipe.Close()
		guard.Wait()
	}, nil
}

func guard(name string) int {
	if n, _ := io.ReadFull(os.Stdin, make([]byte, 1)); n > 0 {
		return 0
	}
	if err := e2e.Down(context.Background(), name); err != nil {
		return 1
	}
	return 0
}

// diagnosis tells what a person would look at first when a cluster does not work.
func diagnosis() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "nodes,pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"logs", "-n", "kube-system", "-l", "app=contiv-agent", "--all-containers", "--tail=15"},
		{"logs", "-n", "kube-system", "-l", "app=contiv-ksr", "--tail=15"},
	} {
		out, err := cluster.Kubectl(ctx, args...)
		fmt.Fprintf(&b, "--- kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}
