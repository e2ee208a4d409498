package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// adapt is the post-renderer called by contivctl and Helm.
func adapt(name string) int {
	adapted, err := func() ([]byte, error) {
		c, err := e2e.Open(e2e.Options{Name: name})
		if err != nil {
			return nil, err
		}
		manifests, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, err
		}
		return c.Adapt(manifests)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Stdout.Write(adapted)
	return 0
}

// site is a separate cluster, initially without Contiv.
type site struct {
	*e2e.Cluster
	t *testing.T
	// adapter is the post-renderer, env its environment.
	adapter string
	env     []string
}

func newSite(t *testing.T, prefix string, withoutProxy bool) *site {
	t.Helper()
	opts := options
	opts.Nodes, opts.WithoutProxy = 1, withoutProxy
	return newSiteWith(t, prefix, opts)
}

func newSiteWith(t *testing.T, prefix string, opts e2e.Options) *site {
	t.Helper()
	needCluster(t)
	opts.Name, opts.VSwitches = fmt.Sprintf("%s%d", prefix, os.Getpid()), nil
	release, err := startGuard(opts.Name, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		remove(opts.Name)
		release()
	})
	c, err := e2e.Up(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	adapter, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &site{Cluster: c, t: t, adapter: adapter, env: []string{adaptVariable + "=" + opts.Name}}
}

func (s *site) run(program string, args ...string) string {
	s.t.Helper()
	began := time.Now()
	out, err := s.Run(s.t.Context(), s.env, program, args...)
	if err != nil {
		state, _ := s.Kubectl(s.t.Context(), "get", "nodes,pods", "-A", "-o", "wide")
		s.t.Fatalf("%v\n%s", err, state)
	}
	measured(s.t, "%s %s: %s", filepath.Base(program), args[0], time.Since(began).Round(100*time.Millisecond))
	return out
}

func (s *site) refused(reason, program string, args ...string) {
	s.t.Helper()
	if out, err := s.Run(s.t.Context(), s.env, program, args...); err == nil || !strings.Contains(err.Error(), reason) {
		s.t.Errorf("%s %v: %v, want %q\n%s", filepath.Base(program), args, err, reason, out)
	}
}

func (s *site) kubectl(args ...string) string {
	s.t.Helper()
	out, err := s.Kubectl(s.t.Context(), args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// onNode runs a program in the node's network namespace.
func (s *site) onNode(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	err := s.Start(cmd, s.Nodes()[0].Netns)
	if err == nil {
		err = cmd.Wait()
	}
	return output.String(), err
}

// pod starts a pod on the pod network and returns its address once it runs.
func (s *site) pod(name string) string {
	s.t.Helper()
	s.kubectl("run", name, "--image", e2e.BusyboxImage, "--restart=Never", "--", "sleep", "infinity")
	s.kubectl("wait", "pod", name, "--for=condition=Ready", "--timeout=2m")
	var pod corev1.Pod
	if err := s.Get(s.t.Context(), &pod, "pod", name); err != nil {
		s.t.Fatal(err)
	}
	return pod.Status.PodIP
}

func (s *site) mtu(pod string) string {
	return strings.TrimSpace(s.kubectl("exec", pod, "--", "cat", "/sys/class/net/eth0/mtu"))
}

// pings pings an address until stop is called, which returns the number of lost pings.
func (s *site) pings(address string) (stop func() (sent, lost int)) {
	s.t.Helper()
	cmd := exec.Command("ping", "-n", "-i", "0.1", "-W", "1", address)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := s.Start(cmd, s.Nodes()[0].Netns); err != nil {
		s.t.Fatal(err)
	}
	return func() (sent, lost int) {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		received := 0
		_, summary, _ := strings.Cut(output.String(), "statistics ---\n")
		if n, err := fmt.Sscanf(summary, "%d packets transmitted, %d received", &sent, &received); n != 2 {
			s.t.Errorf("ping %s: %v: %s", address, err, output.String())
		}
		return sent, sent - received
	}
}

// traces returns objects that an installation may leave on the node and in the cluster.
func (s *site) traces() map[string]string {
	s.t.Helper()
	found := map[string]string{}
	for what, command := range map[string]string{
		"links":  "ip -o link | cut -d: -f2",
		"routes": "ip route show table all; ip -6 route show table all | grep -v '^fe80\\|^multicast\\|fe80::'",
		"rules":  "ip rule; ip -6 rule",
		// kube-proxy's rules change with Services.
		"firewall": "nft list ruleset | grep -i contiv || true; iptables-save | grep -i contiv || true",
		"files":    "cd '" + filepath.Join(s.Dir(), "nodes", s.Nodes()[0].Name) + "' && find opt/cni etc/cni var/bolt var/run/contiv var/etcd ! -type d 2>/dev/null || true",
	} {
		out, err := s.onNode(s.t.Context(), "sh", "-c", command)
		if err != nil {
			s.t.Fatalf("%s: %v: %s", what, err, out)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		slices.Sort(lines)
		found[what] = strings.Join(lines, "\n")
	}
	out := s.kubectl("get", "-A", "-o", "name", "all,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,poddisruptionbudgets,networkpolicies,leases,priorityclasses")
	out += s.kubectl("get", "certificatesigningrequests", "-o", `jsonpath={range .items[?(@.spec.signerName=="contiv.io/etcd-client")]}contiv certificatesigningrequest/{.metadata.name}{"\n"}{end}`)
	out += s.kubectl("get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.labels} {.metadata.annotations}{"\n"}{range .status.conditions[?(@.type=="ContivReady")]}contiv condition{"\n"}{end}{end}`)
	var objects []string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "contiv") {
			objects = append(objects, strings.TrimSpace(line))
		}
	}
	found["objects"] = strings.Join(objects, "\n")
	return found
}

// there fails unless Contiv has left traces of each kind.
func (s *site) there(before map[string]string) {
	s.t.Helper()
	now := s.traces()
	for _, what := range []string{"links", "routes", "firewall", "files", "objects"} {
		if now[what] == before[what] {
			s.t.Errorf("%s are as they were before Contiv: %s", what, now[what])
		}
	}
}

// gone fails unless all traces are gone.
func (s *site) gone(before map[string]string) {
	s.t.Helper()
	await.That(s.t, "the node as it was before", func() error {
		if diff := cmp.Diff(before, s.traces()); diff != "" {
			return fmt.Errorf("it differs (-before +now):\n%s", diff)
		}
		return nil
	})
}

// With only a kubeconfig and contivctl, in a cluster without kube-proxy: check, install, change the
// configuration without packet loss, remove without traces.
func TestContivctlInstalls(t *testing.T) {
	s := newSite(t, "c", true)
	contivctl := filepath.Join(options.BinDir, "contivctl")
	s.refused("node-role.kubernetes.io/control-plane", contivctl, "preflight", "--post-renderer", s.adapter)
	s.kubectl("label", "node", e2e.ControlPlaneNode, "node-role.kubernetes.io/control-plane=")
	// The check explains how to run without kube-proxy.
	_, err := s.Run(t.Context(), s.env, contivctl, "preflight", "--post-renderer", s.adapter)
	_, apiServer, found := strings.Cut(fmt.Sprint(err), "--api-server ")
	if !found {
		t.Fatalf("preflight: %v", err)
	}
	apiServer = strings.Fields(apiServer)[0]
	if out := s.run(contivctl, "preflight", "--post-renderer", s.adapter, "--api-server", apiServer); strings.Contains(out, "ERROR") || !strings.Contains(out, "kernel") {
		t.Errorf("preflight: %s", out)
	}
	s.refused("contivctl install", contivctl, "upgrade", "--post-renderer", s.adapter)
	before := s.traces()

	began := time.Now()
	s.run(contivctl, "install", "--post-renderer", s.adapter, "--api-server", apiServer)
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("the installation took %s: README.md promises less than two minutes", took)
	}
	s.refused("contivctl upgrade", contivctl, "install", "--no-preflight", "--post-renderer", s.adapter)
	address := s.pod("web")
	first := s.mtu("web")
	s.there(before)

	conf := filepath.Join(t.TempDir(), "contiv.conf")
	if err := os.WriteFile(conf, []byte("mtuSize: 1234\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := s.pings(address)
	s.run(contivctl, "upgrade", "--post-renderer", s.adapter, "--conf", conf)
	sent, lost := stop()
	measured(t, "%d of %d pings were lost during the upgrade", lost, sent)
	if lost > 0 || sent < 20 {
		t.Errorf("%d of %d pings were lost during the upgrade", lost, sent)
	}
	s.pod("later")
	if got := s.mtu("later"); got != "1234" {
		t.Errorf("after the upgrade, a pod has MTU %s; before, it was %s", got, first)
	}
	// Settings without flag are kept.
	s.run(contivctl, "upgrade", "--post-renderer", s.adapter)
	if text := s.kubectl("get", "configmap", "-n", "kube-system", "contiv-config", "-o", "jsonpath={.data.contiv\\.conf}"); text != "mtuSize: 1234\n" {
		t.Errorf("contiv.conf is %q", text)
	}

	announced := s.run(contivctl, "uninstall", "--dry-run")
	for _, want := range []string{"loses the CNI plugin, the network, /var/bolt, /var/run/contiv, /var/etcd/contiv-data\n", "Pod default/web on node ", "Pod default/later on node "} {
		if !strings.Contains(announced, want) {
			t.Errorf("uninstall --dry-run does not say %q:\n%s", want, announced)
		}
	}
	s.kubectl("delete", "pod", "web", "later", "--force", "--grace-period=0", "--wait=true")
	s.refused("--yes", contivctl, "uninstall")
	done := s.run(contivctl, "uninstall", "--yes")
	if diff := cmp.Diff(named(announced, " is deleted"), named(done, " deleted")); diff != "" {
		t.Errorf("deleted objects (-announced +deleted):\n%s", diff)
	}
	s.gone(before)
}

// named returns the texts before the ending, in lines that have it.
func named(text, ending string) (names []string) {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutSuffix(strings.TrimSpace(line), ending); ok {
			names = append(names, name)
		}
	}
	return names
}

// helm builds Helm, and returns the paths of Helm and the chart.
func (s *site) helm() (helm, chart string) {
	s.t.Helper()
	home := s.t.TempDir()
	helm = filepath.Join(home, "helm")
	if out, err := exec.CommandContext(s.t.Context(), "go", "build", "-C", "../chart", "-o", helm, "helm.sh/helm/v3/cmd/helm").CombinedOutput(); err != nil {
		s.t.Fatalf("build Helm: %v: %s", err, out)
	}
	s.env = append(s.env, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	chart, err := filepath.Abs("../../deploy/chart")
	if err != nil {
		s.t.Fatal(err)
	}
	return helm, chart
}

// Helm does the same with the chart.
func TestHelmInstalls(t *testing.T) {
	s := newSite(t, "h", false)
	helm, chart := s.helm()
	s.kubectl("label", "node", e2e.ControlPlaneNode, "node-role.kubernetes.io/control-plane=")
	before := s.traces()
	common := []string{"contiv", chart, "-n", "kube-system", "--post-renderer", s.adapter, "--wait", "--timeout", "5m"}

	s.refused("mtuSise", helm, append([]string{"install", "--set", "contiv.mtuSise=1400"}, common...)...)
	// Helm considers a DaemonSet of one pod ready without that pod.
	rollout := func() {
		s.kubectl("rollout", "status", "-n", "kube-system", "daemonset/contiv-agent", "--timeout=2m")
	}
	s.run(helm, append([]string{"install"}, common...)...)
	rollout()
	s.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=1m")
	s.run(helm, "test", "contiv", "-n", "kube-system")
	address := s.pod("web")
	s.there(before)

	stop := s.pings(address)
	s.run(helm, append([]string{"upgrade", "--reuse-values", "--set", "contiv.mtuSize=1234"}, common...)...)
	rollout()
	sent, lost := stop()
	measured(t, "%d of %d pings were lost during the upgrade", lost, sent)
	if lost > 0 || sent < 20 {
		t.Errorf("%d of %d pings were lost during the upgrade", lost, sent)
	}
	s.pod("later")
	if got := s.mtu("later"); got != "1234" {
		t.Errorf("after the upgrade, a pod has MTU %s", got)
	}
	s.kubectl("delete", "pod", "web", "later", "--force", "--grace-period=0", "--wait=true")
	s.run(helm, "uninstall", "contiv", "-n", "kube-system", "--wait")
	// contivctl removes the rest, which Helm does not know.
	s.run(filepath.Join(options.BinDir, "contivctl"), "uninstall", "--yes", "--post-renderer", s.adapter)
	s.gone(before)
}
