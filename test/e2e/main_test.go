package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/ctl/install"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"go.uber.org/goleak"
)

// The environment set by make e2e.
const (
	cacheVariable    = "CONTIV_E2E_CACHE"      // directory of Kubernetes', containerd's and Debian's programs
	versionVariable  = "CONTIV_E2E_KUBERNETES" // minor version of Kubernetes; default the newest of hack/kubernetes
	binVariable      = "CONTIV_E2E_BIN"        // directory of Contiv's programs, default bin
	imageVariable    = "CONTIV_E2E_IMAGE"      // archive with Contiv's image; default: made of the programs
	vppImageVariable = "CONTIV_E2E_VPP_IMAGE"  // archive with Contiv's image for VPP nodes; default: made of the programs
	keepVariable     = "CONTIV_E2E_KEEP"       // name of a cluster that is kept
	vswitchVariable  = "CONTIV_E2E_VSWITCH"    // vswitches of the nodes, in turn; default kernel; vpp-stn: VPP with the host's only NIC
	proxyVariable    = "CONTIV_E2E_PROXY"      // service proxy: kube-proxy (default) or none, which means Contiv
	ipVariable       = "CONTIV_E2E_IP"         // IP versions: ipv4 (default), ipv6 or dual
	valuesVariable   = "CONTIV_E2E_VALUES"     // chart values (YAML) for the installation; default none: deploy/*.yaml
	slowVariable     = "CONTIV_E2E_SLOW"       // factor for all timeouts; default 1
	guardVariable    = "CONTIV_E2E_GUARD"      // the cluster that this process guards
	adaptVariable    = "CONTIV_E2E_ADAPT"      // cluster for which this process adapts manifests, from input to output
)

// cluster is shared by all tests; nil: skip. options are its options.
var (
	cluster *e2e.Cluster
	options e2e.Options
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if name := os.Getenv(guardVariable); name != "" {
		return guard(name)
	}
	if name := os.Getenv(adaptVariable); name != "" {
		return adapt(name)
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
	stop()
	if err := goleak.Find(); err != nil && keep == "" && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runWith(ctx context.Context, m *testing.M, cache, name string, keep bool) int {
	bin := os.Getenv(binVariable)
	if bin == "" {
		bin, _ = filepath.Abs("../../bin")
	}
	manifests, err := filepath.Glob("../../deploy/*.yaml")
	if values := os.Getenv(valuesVariable); err == nil && values != "" {
		var dir string
		if dir, err = os.MkdirTemp("", "contiv-e2e-"); err == nil {
			defer os.RemoveAll(dir)
			manifests, err = render(values, dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	began := time.Now()
	progress := func(line string) { fmt.Printf("%7.1fs  %s\n", time.Since(began).Seconds(), line) }
	places := e2e.Places{Source: "../..", Cache: cache, Kubernetes: os.Getenv(versionVariable)}
	options = e2e.Options{
		ContivArchive: os.Getenv(imageVariable), VPPArchive: os.Getenv(vppImageVariable),
		Name: name, Nodes: 2, BinDir: bin, Manifests: manifests,
		KubernetesDir: places.KubernetesDir(), RuntimeDir: places.RuntimeDir(), DebianDir: places.DebianDir(),
		Progress: progress,
	}
	if slow := os.Getenv(slowVariable); slow != "" {
		if options.Slow, err = strconv.Atoi(slow); err != nil || options.Slow < 1 {
			fmt.Fprintf(os.Stderr, "%s is %q: it must be a number, 1 or more\n", slowVariable, slow)
			return 1
		}
		await.Patience *= time.Duration(options.Slow)
	}
	options.IP = e2e.IPVersions(os.Getenv(ipVariable))
	switch proxy := os.Getenv(proxyVariable); proxy {
	case "", "kube-proxy":
	case "none":
		options.WithoutProxy = true
	default:
		fmt.Fprintf(os.Stderr, "%s is %q: use kube-proxy or none\n", proxyVariable, proxy)
		return 1
	}
	if vswitches := os.Getenv(vswitchVariable); vswitches != "" {
		options.VSwitches, options.SingleNIC, err = parseVSwitches(vswitches)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", vswitchVariable, err)
			return 1
		}
	}
	code := 1
	if err := start(ctx, options, keep); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if cluster == nil {
			return 1
		}
		fmt.Fprintln(os.Stderr, diagnosis())
	} else if ctx.Err() == nil {
		note("the cluster is ready after %s", time.Since(began).Round(100*time.Millisecond))
		removed := removeWhenInterrupted(ctx, name, keep)
		code = m.Run()
		removed()
		summary(code)
	}
	if keep {
		fmt.Printf("the cluster stays: KUBECONFIG=%s/pki/admin.kubeconfig ip netns exec %s-underlay kubectl …\n", cluster.Dir(), name)
		return code
	}
	progress("removing the cluster")
	if !remove(name) {
		return 1
	}
	progress("removed")
	return code
}

// render writes the chart's manifests for values to a directory, and returns their paths.
func render(values, dir string) (paths []string, err error) {
	files, err := install.Render(values)
	for name, text := range files {
		path := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, text, 0o600))
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, err
}

// remove removes the cluster and reports remains.
func remove(name string) bool {
	if err := e2e.Down(context.Background(), name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	left, err := e2e.Leftovers(name)
	if err != nil || len(left) > 0 {
		fmt.Fprintln(os.Stderr, "left of the cluster:", strings.Join(left, "\n"), err)
		return false
	}
	return true
}

// removeWhenInterrupted ends this process when ctx ends, because tests do not notice it.
func removeWhenInterrupted(ctx context.Context, name string, keep bool) (cancel func() bool) {
	return context.AfterFunc(ctx, func() {
		fmt.Fprintln(os.Stderr, "interrupted, removing the cluster")
		if !keep {
			remove(name)
		}
		os.Exit(1)
	})
}

// notes are the tests' measurements.
var notes []string

func note(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }

// measured logs and records a measurement.
func measured(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf(format, args...)
	note("%s: %s", t.Name(), fmt.Sprintf(format, args...))
}

func summary(code int) {
	fmt.Println("\nSummary")
	for _, line := range notes {
		fmt.Println("  " + line)
	}
	fmt.Println("  " + map[bool]string{true: "all tests passed", false: "tests FAILED, see above"}[code == 0])
}

// start creates the cluster, unless one was kept.
func start(ctx context.Context, opts e2e.Options, kept bool) error {
	if kept {
		if existing, err := e2e.Open(opts); err == nil {
			cluster = existing
			return nil
		}
	}
	var err error
	if cluster, err = e2e.Up(ctx, opts); err != nil {
		return err
	}
	if err := noteBefore(ctx); err != nil {
		return err
	}
	if err := cluster.Install(ctx); err != nil {
		return err
	}
	return noteAfter(ctx)
}

// startGuard starts this program as a guard that removes the cluster if this process dies.
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

// diagnosis returns the first information needed when a cluster does not work.
func diagnosis() string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "nodes,pods", "-A", "-o", "wide"},
		{"events", "-A", "--types=Warning"},
		{"logs", "-n", "kube-system", "-l", "app in (contiv-agent, contiv-vpp)", "--all-containers", "--tail=5", "--prefix"},
		{"logs", "-n", "kube-system", "-l", "app=contiv-ksr", "--tail=5", "--prefix"},
		{"logs", "-n", "kube-system", "-l", "app=contiv-etcd", "--tail=5", "--prefix"},
	} {
		out, err := cluster.Kubectl(ctx, args...)
		fmt.Fprintf(&b, "--- kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}
