package lab

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// Guest is a program that others run in a lab, such as a part of Kubernetes.
type Guest struct {
	// Role names the process in the lab's state and its log file.
	Role string
	// Netns is the name of the lab's namespace that the process runs in; "": the one
	// that StartGuest is called in.
	Netns   string
	Command []string
	// Ready reports whether the process serves; nil if that does not matter.
	Ready func(context.Context) error
}

// StartGuest starts a program as a process of the lab, which Down ends, and
// returns when it is ready. One that runs is left alone.
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

// StopGuest ends a program of StartGuest with SIGTERM, and with SIGKILL when it
// still runs after the grace period. One that does not run is no error.
func (l *Lab) StopGuest(ctx context.Context, role string, grace time.Duration) error {
	return l.change(ctx, func(st *State) error {
		return st.Processes[role].stop(grace)
	})
}

// ProcessesIn returns the processes in one of the lab's network namespaces whose
// program has the name, as /proc/<pid>/comm says it.
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

// Kill ends the process with SIGKILL and waits for its end.
func (p Process) Kill() error { return p.kill() }

// NewREST returns the REST API that a process serves on a unix socket.
func NewREST(socket string) *REST { return newREST(socket) }
