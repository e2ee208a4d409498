package lab

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/contiv/contiv/internal/stn/client"
	"golang.org/x/sys/unix"
)

// A node with VPP and a single NIC shares the NIC with VPP. contiv-stn runs as a separate process,
// as it does outside of Kubernetes:
//
//	eth0 192.168.16.1, the host's or VPP's
//	┌───┴─────────────────────────────────────────────────┐
//	│ contiv-stn            contiv-init ── contiv-agent, vpp │
//	└─────────────────────────────────────────────────────┘

func stnRole(node string) string { return "stn/" + node }

// STNSocket returns the path of the socket of a node's contiv-stn.
func (l *Lab) STNSocket(node string) string { return l.nodePath(node, "run/stn.sock") }

func (l *Lab) stnConfig(n Node) string {
	return fmt.Sprintf("stnSocketFile: %s\n", l.STNSocket(n.Name))
}

func (l *Lab) startSTN(ctx context.Context, st *State, n Node) error {
	if !n.SingleNIC {
		return nil
	}
	resolv := l.nodePath(n.Name, "resolv.conf")
	if err := os.WriteFile(resolv, []byte("# Written by contiv-lab.\n"), 0o600); err != nil {
		return err
	}
	err := l.start(st, stnRole(n.Name), n.Netns, "contiv-stn",
		"--socket", l.STNSocket(n.Name), "--state-dir", l.nodePath(n.Name, "stn"), "--resolv-conf", resolv)
	if err != nil {
		return err
	}
	return l.await(ctx, "contiv-stn of "+n.Name, st.Processes[stnRole(n.Name)], STNReady(l.STNSocket(n.Name)))
}

// STNReady returns a readiness check of the contiv-stn on a socket.
func STNReady(socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := client.New(socket)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Stolen(ctx, "")
		return err
	}
}

// KillSTN ends a node's contiv-stn with SIGKILL.
func (l *Lab) KillSTN(ctx context.Context, node string) error {
	return l.change(ctx, func(st *State) error {
		l.progress("node %s: killing contiv-stn", node)
		return st.Processes[stnRole(node)].kill()
	})
}

// StartSTN starts a node's contiv-stn unless it runs, as its supervisor would.
func (l *Lab) StartSTN(ctx context.Context, node string) error {
	return l.change(ctx, func(st *State) error {
		n, err := st.Node(node)
		if err != nil || st.Processes[stnRole(node)].Alive() {
			return err
		}
		return l.startSTN(ctx, st, n)
	})
}

// KillUnit ends contiv-init, VPP and the agent of a node with SIGKILL. They stay down until
// StartAgent.
func (l *Lab) KillUnit(ctx context.Context, node string) error {
	return l.change(ctx, func(st *State) error {
		n, err := st.Node(node)
		if err != nil {
			return err
		}
		l.progress("node %s: killing contiv-init, VPP and the agent", node)
		unit := st.Processes[agentRole(node)]
		if err := unit.kill(); err != nil {
			return err
		}
		// Not by name: a VPP that has just started still has another name.
		for _, p := range netnsProcesses([]string{n.Netns}) {
			if sid, _ := unix.Getsid(p.PID); sid == unit.PID {
				err = errors.Join(err, p.kill())
			}
		}
		return err
	})
}

// FreezeVPP stops a node's VPP with SIGSTOP, like an endless loop, until the caller calls thaw.
func (l *Lab) FreezeVPP(node string) (thaw func() error, err error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	n, err := st.Node(node)
	if err != nil {
		return nil, err
	}
	p, err := childOf(n, vppThread)
	if err != nil {
		return nil, err
	}
	return p.Freeze()
}
