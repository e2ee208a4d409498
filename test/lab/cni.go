package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

// cniTimeout is the timeout of a CNI call in container runtimes.
const cniTimeout = 30 * time.Second

// quitDelay is the time between SIGQUIT and SIGKILL of a plugin that hangs.
const quitDelay = 5 * time.Second

type cniCall struct {
	lab  *Lab
	pod  Pod
	node Node
}

func (l *Lab) cni(pod Pod, node Node) cniCall { return cniCall{l, pod, node} }

func (c cniCall) config() (*libcni.CNIConfig, *libcni.NetworkConfigList, *libcni.RuntimeConf, error) {
	data, err := os.ReadFile(c.lab.nodePath(c.node.Name, "10-contiv-vpp.conflist"))
	if err != nil {
		return nil, nil, nil, err
	}
	network, err := libcni.NetworkConfFromBytes(data)
	if err != nil {
		return nil, nil, nil, err
	}
	plugins := &nodeExec{
		node:   c.node.Name,
		netns:  NetnsPath(c.node.Netns),
		timing: c.lab.timingFile(c.node.Name),
		log:    c.lab.cniLog(c.node.Name),
	}
	runtime := &libcni.RuntimeConf{
		ContainerID: c.pod.ContainerID,
		NetNS:       NetnsPath(c.pod.Netns),
		IfName:      "eth0",
		Args: [][2]string{
			{"IgnoreUnknown", "1"},
			{"K8S_POD_NAMESPACE", c.pod.Namespace},
			{"K8S_POD_NAME", c.pod.Name},
			{"K8S_POD_INFRA_CONTAINER_ID", c.pod.ContainerID},
			{"K8S_POD_UID", c.pod.UID},
		},
	}
	if len(c.pod.HostPorts) > 0 {
		runtime.CapabilityArgs = map[string]any{"portMappings": c.pod.HostPorts}
	}
	return libcni.NewCNIConfigWithCacheDir([]string{c.lab.opts.BinDir}, c.lab.nodePath(c.node.Name, "cni-cache"), plugins), network, runtime, nil
}

// add returns the pod's addresses, at least one.
func (c cniCall) add(ctx context.Context) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, cniTimeout)
	defer cancel()
	cni, network, runtime, err := c.config()
	if err != nil {
		return nil, err
	}
	var result types.Result
	c.patiently(func() { result, err = cni.AddNetworkList(ctx, network, runtime) })
	if err != nil {
		return nil, err
	}
	current, err := types100.NewResultFromResult(result)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, ip := range current.IPs {
		if address, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			addresses = append(addresses, address.Unmap())
		}
	}
	if len(addresses) == 0 {
		return nil, errors.New("contiv-cni gave no address: its result has no \"ips\"")
	}
	return addresses, nil
}

func (c cniCall) del(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cniTimeout)
	defer cancel()
	cni, network, runtime, err := c.config()
	if err != nil {
		return err
	}
	c.patiently(func() { err = cni.DelNetworkList(ctx, network, runtime) })
	return err
}

func (c cniCall) patiently(fn func()) {
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		select {
		case <-done:
		case <-time.After(time.Second):
			c.lab.progress("waiting for the agent of %s, which wires pod %s, for %s at most", c.node.Name, c.pod.ID(), cniTimeout)
		}
	})
	fn()
	close(done)
	saying.Wait()
}

func (c cniCall) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cniTimeout)
	defer cancel()
	cni, network, runtime, err := c.config()
	if err != nil {
		return err
	}
	return cni.CheckNetworkList(ctx, network, runtime)
}

// CNI makes one CNI call for an existing pod, outside of the pod's life cycle. command is ADD, DEL
// or CHECK. ADD returns the pod's first address.
func (l *Lab) CNI(ctx context.Context, command, pod string) (netip.Addr, error) {
	st, err := l.State()
	if err != nil {
		return netip.Addr{}, err
	}
	p, err := st.Pod(pod)
	if err != nil {
		return netip.Addr{}, err
	}
	node, err := st.Node(p.Node)
	if err != nil {
		return netip.Addr{}, err
	}
	call := l.cni(p, node)
	switch command {
	case "ADD":
		addresses, err := call.add(ctx)
		if err != nil {
			return netip.Addr{}, err
		}
		return addresses[0], nil
	case "DEL":
		return netip.Addr{}, call.del(ctx)
	case "CHECK":
		return netip.Addr{}, call.check(ctx)
	}
	return netip.Addr{}, fmt.Errorf("unknown CNI command %q", command)
}

// CNITiming is the duration of one CNI call, as measured by contiv-cni.
type CNITiming struct {
	Command   string `json:"command"`
	Container string `json:"container"`
	// Total is the time inside contiv-cni, RPC the part spent in the request to the agent, Agent
	// the part spent in the agent, and Southbound the part spent in the vswitch.
	Total      time.Duration `json:"total_ns"`
	RPC        time.Duration `json:"rpc_ns"`
	Agent      time.Duration `json:"agent_ns"`
	Southbound time.Duration `json:"southbound_ns"`
	// Exec is the time that the runtime spent beyond Total to start and reap the process. The lab
	// measures it.
	Exec time.Duration `json:"-"`
}

func (l *Lab) cniLog(node string) string { return l.Path("logs", "cni-"+node+".log") }

func (l *Lab) timingFile(node string) string { return l.nodePath(node, "cni-timing.jsonl") }

// CNITimings returns the timings of all CNI calls on a node, oldest first.
func (l *Lab) CNITimings(node string) ([]CNITiming, error) { return ReadCNITimings(l.timingFile(node)) }

// ReadCNITimings reads the timings that a runtime has recorded.
func ReadCNITimings(file string) ([]CNITiming, error) {
	whole, err := readTimings[wholeTiming](file + ".whole")
	if err != nil {
		return nil, err
	}
	waited := map[string]time.Duration{}
	for _, w := range whole {
		waited[w.Command+w.Container] = w.Waited
	}
	timings, err := readTimings[CNITiming](file)
	for i, t := range timings {
		if w, ok := waited[t.Command+t.Container]; ok {
			timings[i].Exec = w - t.Total
		}
	}
	return timings, err
}

type wholeTiming struct {
	Command   string        `json:"command"`
	Container string        `json:"container"`
	Waited    time.Duration `json:"waited_ns"`
}

func readTimings[T any](path string) ([]T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var timings []T
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var t T
		if err := json.Unmarshal([]byte(line), &t); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, i+1, err)
		}
		timings = append(timings, t)
	}
	return timings, nil
}

type nodeExec struct {
	node, netns string
	timing      string
	// log is the log file of contiv-cni. It also receives the output of a plugin that timed out.
	log string
	version.PluginDecoder
}

var _ invoke.Exec = (*nodeExec)(nil)

func (e *nodeExec) FindInPath(plugin string, paths []string) (string, error) {
	return invoke.FindInPath(plugin, paths)
}

func (e *nodeExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	cmd.Stdin = strings.NewReader(string(stdin))
	cmd.Env = append(environ, "CONTIV_CNI_TIMING="+e.timing)
	// SIGQUIT makes a Go program print its stacks.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGQUIT) }
	cmd.WaitDelay = quitDelay
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := InNetns(e.netns, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	e.record(environ, time.Since(start))
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		return nil, e.noAnswer(time.Since(start), stdout.String()+stderr.String())
	}
	if err != nil {
		return nil, pluginError(path, err, stdout.String(), stderr.String())
	}
	return []byte(stdout.String()), nil
}

// errHangs is the error of a CNI call that timed out in the agent.
type errHangs string

func (e errHangs) Error() string { return string(e) }

func (e errHangs) Is(other error) bool { return other == context.DeadlineExceeded }

func (e *nodeExec) noAnswer(waited time.Duration, said string) error {
	err := errHangs(fmt.Sprintf("the agent of node %s has not answered within %s, so it hangs or is stopped; where contiv-cni waited is in %s", e.node, waited.Round(time.Second), e.log))
	log, failed := os.OpenFile(e.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if failed != nil {
		return errors.Join(err, failed)
	}
	_, failed = log.WriteString(said)
	if failed = errors.Join(failed, log.Close()); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

func pluginError(path string, err error, stdout, stderr string) error {
	said := &types.Error{}
	if json.Unmarshal([]byte(stdout), said) == nil && said.Msg != "" {
		return said
	}
	return fmt.Errorf("%s: %w: %s", path, err, strings.TrimSpace(stdout+stderr))
}

func (e *nodeExec) record(environ []string, waited time.Duration) {
	t := wholeTiming{Waited: waited}
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "CNI_COMMAND="); ok {
			t.Command = value
		}
		if value, ok := strings.CutPrefix(v, "CNI_CONTAINERID="); ok {
			t.Container = value
		}
	}
	f, err := os.OpenFile(e.timing+".whole", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return // only a measurement is lost
	}
	defer f.Close()
	line, _ := json.Marshal(t)
	f.Write(append(line, '\n'))
}
