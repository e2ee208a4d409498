package lab

import (
	"context"
	"fmt"
	"golang.org/x/sys/unix"
	"os"
	"strings"
	"time"
)

// Guest is another program in a lab, such as a part of Kubernetes.
type Guest struct {
	// Role names the process in the lab's state and its log file.
	Role string
	// Netns is the lab's namespace in which the process runs. If it is empty, the process runs in
	// the caller's namespace.
	Netns   string
	Command []string
	// Ready reports whether the process serves; optional.
	Ready func(context.Context) error
}

// StartGuest starts a program as a process of the lab and returns when it is ready. Down ends the
// process. StartGuest does nothing if the process is running.
func (l *Lab) StartGuest(ctx context.Context, g Guest) error {
	return l.change(ctx, func(st *State) error {
		if !st.Processes[g.Role].Alive() {
			p, err := startProcess(st.Name, g.Netns, l.Path("logs", logName(g.Role)), g.Command)
			if err != nil {
				return err
			}
			st.Processes[g.Role] = p
			if err := st.write(l.dir); err != nil {
				return err
			}
		}
		if g.Ready == nil {
			return nil
		}
		return l.await(ctx, g.Role, st.Processes[g.Role], g.Ready)
	})
}

// StopGuest ends a program of StartGuest with SIGTERM, and with SIGKILL after the grace period. It
// returns nil if the program does not run.
func (l *Lab) StopGuest(ctx context.Context, role string, grace time.Duration) error {
	return l.change(ctx, func(st *State) error {
		return st.Processes[role].stop(grace)
	})
}

// ProcessesIn returns the processes in one of the lab's network namespaces whose command name in
// /proc/<pid>/comm is name.
func ProcessesIn(netns, name string) []Process {
	var found []Process
	for _, p := range netnsProcesses([]string{netns}) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
		if err == nil && strings.TrimSpace(string(comm)) == name {
			found = append(found, p)
		}
	}
	return found
}

// Kill ends the process with SIGKILL and waits until it has ended.
func (p Process) Kill() error { return p.kill() }

// Freeze stops the process with SIGSTOP, like an endless loop, until the caller calls thaw.
func (p Process) Freeze() (thaw func() error, err error) {
	return func() error { return p.signal(unix.SIGCONT) }, p.signal(unix.SIGSTOP)
}
