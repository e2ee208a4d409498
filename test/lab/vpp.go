package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/vswitch/linux"
	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	"github.com/contiv/contiv/kvscheduler"
	"golang.org/x/sys/unix"
)

// A node with VPP has a second NIC on the underlay, which VPP uses. The host keeps the first one,
// with the address that Kubernetes knows. contiv-init runs VPP and the agent:
//
//	eth0 192.168.16.1   eth1, in VPP 192.168.16.101
//	┌───┴───────────────────┴────────────────────────────┐
//	│ contiv-init ── contiv-agent, vpp                   │
//	│ host ── vpp1 ══ vpp2 ── VPP ── veth ══ eth0 of pod │
//	└────────────────────────────────────────────────────┘

// Values of Options.VSwitches.
const (
	KernelVSwitch = "kernel"
	VPPVSwitch    = "vpp"
)

// BinaryVariable is the environment variable with the path of VPP.
const BinaryVariable = "VPP_BIN"

const (
	vppNIC           = "eth1"
	vppAddressOffset = 100
	vppThread        = "vpp_main"
)

func (o *Options) checkVSwitches() error {
	if len(o.VSwitches) == 0 {
		o.VSwitches = []string{KernelVSwitch}
	}
	for _, v := range o.VSwitches {
		if v != KernelVSwitch && v != VPPVSwitch {
			return fmt.Errorf("vswitch %q: use %s or %s, or several, separated by commas: node1 gets the first one, node2 the second, and so on in turn", v, KernelVSwitch, VPPVSwitch)
		}
	}
	if !slices.Contains(o.VSwitches, VPPVSwitch) {
		if o.SingleNIC {
			return fmt.Errorf("--single-nic is for nodes with VPP: the kernel shares the NIC of the host; add --vswitch %s", VPPVSwitch)
		}
		return nil
	}
	if o.Nodes > vppAddressOffset {
		return fmt.Errorf("a lab with VPP has 1 to %d nodes, not %d", vppAddressOffset, o.Nodes)
	}
	if o.VPPBin == "" {
		o.VPPBin = os.Getenv(BinaryVariable)
	}
	if o.VPPBin == "" {
		return fmt.Errorf("nodes with VPP need VPP 25.10: name its program, such as %s=/usr/bin/vpp in the environment or --vpp-bin", BinaryVariable)
	}
	path, err := exec.LookPath(o.VPPBin)
	if err == nil {
		o.VPPBin, err = filepath.Abs(path)
	}
	if err != nil {
		var cause *exec.Error
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return fmt.Errorf("VPP's program %s: %w; %s or --vpp-bin names it", o.VPPBin, err, BinaryVariable)
	}
	return nil
}

// OnVPP reports whether the node's vswitch is VPP.
func (n Node) OnVPP() bool { return n.VSwitch == VPPVSwitch }

func (s *State) hasVPP() bool { return slices.Contains(s.VSwitches, VPPVSwitch) }

func (s *State) setVSwitch(n *Node) error {
	if !s.hasVPP() {
		return nil
	}
	if n.Index > vppAddressOffset {
		return fmt.Errorf("lab %s has %d nodes already, more have no address", s.Name, vppAddressOffset)
	}
	n.VSwitch = s.VSwitches[(n.Index-1)%len(s.VSwitches)]
	if n.OnVPP() && s.SingleNIC {
		n.SingleNIC, n.VPPAddress = true, n.Address
	} else if n.OnVPP() {
		a := n.Address.Addr().As4()
		a[3] += vppAddressOffset
		n.VPPAddress = netip.PrefixFrom(netip.AddrFrom4(a), n.Address.Bits())
	}
	return nil
}

func (l *Lab) vppDir(node string) string { return l.nodePath(node, "vpp") }

// VPPConfig returns the contiv.conf section of the nodes that have VPP.
func VPPConfig(nodes ...Node) string {
	text, steal := "", ""
	for _, n := range nodes {
		if n.SingleNIC {
			steal = fmt.Sprintf("stealInterface: %s\n", NodeNIC)
		} else if n.OnVPP() {
			text += fmt.Sprintf("- nodeName: %s\n  mainVPPInterface: {interfaceName: %s, ip: %s}\n  gateway: %s\n",
				n.Name, vppNIC, n.VPPAddress, RouterAddress.Addr())
		}
	}
	if text != "" {
		text = "nodeConfig:\n" + text
	}
	return steal + text
}

// VPPOptions returns options for a VPP that shares the machine with others. The rings of TAPs need
// buffers for the maximum number of pods of a node.
func VPPOptions() string {
	buffers := 8192
	if startup.ThisMachine().TAPs {
		buffers = 72000
	}
	return fmt.Sprintf("heapMiB: 1024\nstatsMiB: 32\nbuffers: %d\n", buffers)
}

func (l *Lab) initArgs(st *State, n Node, agent []string) []string {
	return append([]string{
		"--vpp-bin", st.VPPBin, "--agent-bin", l.Program("contiv-agent"),
		"--vpp-runtime-dir", l.vppDir(n.Name), "--vpp-options", l.nodePath(n.Name, "vpp.conf"), "--",
	}, agent...)
}

// VPPCommand runs a CLI command of a node's VPP with the vppctl next to the VPP binary.
func (l *Lab) VPPCommand(ctx context.Context, node string, command ...string) (string, error) {
	st, err := l.State()
	if err != nil {
		return "", err
	}
	vppctl := filepath.Join(filepath.Dir(st.VPPBin), "vppctl")
	args := append([]string{"-s", filepath.Join(l.vppDir(node), "cli.sock")}, command...)
	out, err := exec.CommandContext(ctx, vppctl, args...).CombinedOutput()
	if err != nil {
		return string(out), commandError(vppctl, args, out, err)
	}
	return strings.ReplaceAll(string(out), "\r", ""), nil
}

// KillVPP ends a node's VPP with SIGKILL; contiv-init restarts it.
func (l *Lab) KillVPP(ctx context.Context, node string) error {
	return l.endVPP(ctx, node, unix.SIGKILL)
}

// RestartVPP ends a node's VPP with SIGTERM; contiv-init restarts it.
func (l *Lab) RestartVPP(ctx context.Context, node string) error {
	return l.endVPP(ctx, node, unix.SIGTERM)
}

// restored returns nil if the agent has configured a VPP that restarted after since.
//
// It checks the cheap readiness first, because reading the agent's history takes as long as the
// resync.
func (l *Lab) restored(ctx context.Context, node string, since time.Time) error {
	if err := l.Agent(node).Ready(ctx); err != nil {
		return err
	}
	txns, err := l.Agent(node).Transactions(ctx, since)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(txns, func(t *kvscheduler.RecordedTxn) bool { return strings.Contains(t.Description, "VPP was restarted") }) {
		return errors.New("the agent has not configured the new VPP yet")
	}
	return l.Agent(node).Ready(ctx)
}

// restoreTimeout bounds the resync of hundreds of pods to a restarted VPP on a busy machine.
const restoreTimeout = 2 * time.Minute

// endVPP signals VPP and waits until the agent has configured the next one.
func (l *Lab) endVPP(ctx context.Context, node string, s unix.Signal) error {
	return l.change(ctx, func(st *State) error {
		n, err := st.Node(node)
		if err != nil {
			return err
		}
		p, err := childOf(n, vppThread)
		if err != nil {
			return err
		}
		l.progress("node %s: ending VPP", node)
		begun := time.Now()
		if err := endChild(ctx, p, s); err != nil {
			return err
		}
		return l.awaitWithin(ctx, max(l.opts.StartTimeout, restoreTimeout), "the VPP of "+n.Name, st.Processes[agentRole(n.Name)], func(ctx context.Context) error {
			return l.restored(ctx, node, begun)
		})
	})
}

var vppEnd = regexp.MustCompile(`Process exited, restarting it.* process=vpp error=(?:"([^"\n]*)"|(\S+))`)

// vppEnded returns contiv-init's message about a VPP that crashed, "" without a crash.
func vppEnded(init Process) string {
	log, err := os.ReadFile(init.Log)
	if err != nil {
		return ""
	}
	// Earlier lines are from another contiv-init.
	if m := vppEnd.FindSubmatch(log[max(bytes.LastIndex(log, []byte(startMark)), 0):]); m != nil {
		return string(m[1]) + string(m[2])
	}
	return ""
}

func childOf(n Node, name string) (Process, error) {
	if !n.OnVPP() {
		return Process{}, fmt.Errorf("the vswitch of node %s is not VPP, but the kernel", n.Name)
	}
	found := ProcessesIn(n.Netns, name)
	if len(found) != 1 {
		return Process{}, fmt.Errorf("node %s has %d processes %s, not 1: does contiv-init run?", n.Name, len(found), name)
	}
	return found[0], nil
}

// childGrace bounds the kernel's cleanup after a VPP: about 50 ms per packet socket.
const childGrace = time.Minute

func endChild(ctx context.Context, p Process, s unix.Signal) error {
	if err := p.signal(s); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, childGrace)
	defer cancel()
	if err := p.wait(ctx); err != nil {
		return errors.Join(fmt.Errorf("process %d does not end: %w", p.PID, err), p.kill())
	}
	return nil
}

// RestartAgent ends a node's agent with SIGTERM and waits until the next one is ready. VPP keeps
// running.
func (l *Lab) RestartAgent(ctx context.Context, node string) error {
	st, err := l.State()
	if err != nil {
		return err
	}
	n, err := st.Node(node)
	if err != nil {
		return err
	}
	if !n.OnVPP() {
		return errors.Join(l.StopAgent(ctx, node), l.StartAgent(ctx, node))
	}
	err = l.change(ctx, func(*State) error {
		p, err := childOf(n, agentThread)
		if err != nil {
			return err
		}
		return endChild(ctx, p, unix.SIGTERM)
	})
	if err != nil {
		return err
	}
	return l.StartAgent(ctx, node)
}

const agentThread = "contiv-agent"

func (l *Lab) plugVPP(st *State, n Node) error {
	if !n.OnVPP() || n.SingleNIC {
		return nil
	}
	return l.plug(st, n, vppPort(n), vppNIC)
}

func vppPort(n Node) string { return fmt.Sprintf("vpp%d", n.Index) }

// likeAWire makes a VETH pair compute checksums before it sends, as a NIC does. A VPP at the far
// end does not compute them.
func likeAWire(netns, device string) error {
	err := InNetns(NetnsPath(netns), func() error { return linux.DisableChecksumOffloading(device) })
	if err != nil {
		return fmt.Errorf("device %s in %s: %w", device, netns, err)
	}
	return nil
}

func (l *Lab) removeVPPLeftovers(nodes ...Node) {
	for _, n := range nodes {
		if n.OnVPP() {
			for _, file := range (startup.Config{RuntimeDir: l.vppDir(n.Name)}).SharedMemory() {
				os.Remove(file)
			}
		}
	}
}
