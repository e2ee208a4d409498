package lab

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Health is the health of one process of a lab.
type Health struct {
	Role    string
	Process Process
	Alive   bool
	// NotReady is the reason why a running process is not ready.
	NotReady error
}

// Health returns the health of all processes, sorted by role.
func (l *Lab) Health(ctx context.Context, st *State) []Health {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var all []Health
	for _, role := range slices.Sorted(maps.Keys(st.Processes)) {
		h := Health{Role: role, Process: st.Processes[role]}
		if h.Alive = h.Process.Alive(); h.Alive {
			h.NotReady = l.readiness(st, role)(ctx)
		}
		all = append(all, h)
	}
	return all
}

func (l *Lab) readiness(st *State, role string) func(context.Context) error {
	if node, ok := strings.CutPrefix(role, agentRole("")); ok {
		return l.Agent(node).Ready
	}
	if node, ok := strings.CutPrefix(role, stnRole("")); ok {
		return STNReady(l.STNSocket(node))
	}
	switch role {
	case ksrRole:
		return NewREST(l.ksrSocket()).Ready
	case etcdRole:
		return l.etcdReady(st)
	}
	return func(context.Context) error { return nil } // a guest has no readiness check
}

// CtlConfig returns the path of a contivctl configuration with all agents.
func (l *Lab) CtlConfig() string { return l.Path("contivctl.yaml") }

// EtcdFlags returns contivctl's flags for the lab's etcd, and the network namespace to run it in.
func (l *Lab) EtcdFlags() (netns string, flags []string, err error) {
	st, err := l.State()
	if err != nil {
		return "", nil, err
	}
	flags = []string{"--etcd-endpoints", st.etcdURL()}
	if st.TLS {
		flags = append(flags, "--etcd-config", l.Path("etcd.conf"))
	}
	return NetnsPath(st.Underlay()), flags, nil
}

func (l *Lab) writeCtlConfig(st *State) error {
	sockets := map[string]string{}
	for _, n := range st.Nodes {
		sockets[n.Name] = l.AgentSocket(n.Name)
	}
	return l.WriteCtlConfig(sockets)
}

// WriteCtlConfig writes CtlConfig for agents that the lab did not start.
func (l *Lab) WriteCtlConfig(sockets map[string]string) error {
	agents := map[string]string{}
	for node, socket := range sockets {
		agents[node] = "unix://" + socket
	}
	data, err := yaml.Marshal(map[string]any{"agents": agents})
	if err != nil {
		return err
	}
	return writeFile(l.dir, "contivctl.yaml", append([]byte("# Written by contiv-lab.\n"), data...))
}
