package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

const stopGrace = 5 * time.Second

func agentRole(node string) string { return "agent/" + node }

func (l *Lab) nodePath(node, file string) string { return l.Path("nodes", node, file) }

// RunDir returns the run directory of a node's agent, with agent.sock and cni.sock.
func (l *Lab) RunDir(node string) string { return l.nodePath(node, "run") }

// AgentSocket returns the path of the REST socket of a node's agent.
func (l *Lab) AgentSocket(node string) string { return l.nodePath(node, "run/agent.sock") }

// Nodes returns the nodes in the order of their creation.
func (l *Lab) Nodes() ([]Node, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	return st.Nodes, nil
}

// AddNode adds a node and waits until its agent is ready.
func (l *Lab) AddNode(ctx context.Context, name string) (Node, error) {
	var node Node
	err := l.change(ctx, func(st *State) error {
		err := st.etcdRuns() // new nodes are registered in etcd
		if err != nil {
			return err
		}
		if node, err = reserveNode(st, name); err != nil {
			return err
		}
		err = l.makeNode(ctx, st, node)
		if err == nil {
			err = l.awaitNodeUser(ctx, st, node)
		}
		if err == nil {
			err = l.startSTN(ctx, st, node)
		}
		if err == nil {
			err = l.startAgent(st, node)
		}
		if err == nil {
			err = l.awaitNewAgent(ctx, st, node)
		}
		if err == nil {
			err = l.awaitCalicoRoutes(ctx, st)
		}
		if err != nil {
			return errors.Join(err, l.removeNode(ctx, st, node))
		}
		return nil
	})
	return node, err
}

// DelNode removes a node after its pods, as drain would. If the agent does not run or cannot remove
// the pods, they are removed with the node, as in a machine failure.
func (l *Lab) DelNode(ctx context.Context, name string) error {
	return l.change(ctx, func(st *State) error {
		node, err := st.Node(name)
		if err != nil {
			return err
		}
		if st.Processes[agentRole(name)].Alive() {
			if err := l.removePods(ctx, st, st.PodsOf(name)); err != nil {
				l.progress("node %s: pods are removed without their agent: %v", name, err)
			}
		}
		for _, pod := range st.PodsOf(name) {
			if err := l.dropPod(pod); err != nil {
				return err
			}
			st.forgetPod(pod)
		}
		return l.removeNode(ctx, st, node)
	})
}

func reserveNode(st *State, name string) (Node, error) {
	if !nodeName.MatchString(name) {
		return Node{}, nameError("%q cannot be the name of a node: up to 32 lower-case letters, digits and dashes, no dash at the beginning or the end", name)
	}
	if _, err := st.Node(name); err == nil {
		return Node{}, fmt.Errorf("lab %s has a node %s already", st.Name, name)
	}
	if err := st.nameable("node", name); err != nil {
		return Node{}, err
	}
	index := 1
	for slices.ContainsFunc(st.Nodes, func(n Node) bool { return n.Index == index }) {
		index++
	}
	if index > maxNodes {
		return Node{}, fmt.Errorf("lab %s has %d nodes already, more have no address", st.Name, maxNodes)
	}
	addresses := st.families(nodeAddress(index), nodeAddress6(index))
	node := Node{Name: name, Index: index, Address: addresses[0], Netns: st.Name + "-" + name}
	if len(addresses) > 1 {
		node.Address6 = addresses[1]
	}
	if err := checkUnused(node.Netns); err != nil {
		return Node{}, err
	}
	if err := st.setVSwitch(&node); err != nil {
		return Node{}, err
	}
	st.Nodes = append(st.Nodes, node)
	return node, nil
}

func (l *Lab) makeNode(ctx context.Context, st *State, node Node) error {
	l.progress("node %s: network namespace %s, address %s", node.Name, node.Netns, node.Address)
	if err := l.addNetns(st, node.Netns); err != nil {
		return err
	}
	if err := l.plugNode(st, node); err != nil {
		return err
	}
	if err := l.plugVPP(st, node); err != nil {
		return err
	}
	if err := l.writeNodeFiles(st, node); err != nil {
		return err
	}
	if err := l.writeCtlConfig(st); err != nil {
		return err
	}
	if st.Calico {
		return l.joinCalico(ctx, st, node)
	}
	return l.writeManifest(nodeManifest(node))
}

func (l *Lab) removeNode(ctx context.Context, st *State, node Node) error {
	l.progress("node %s: removing", node.Name)
	if st.Calico {
		if err := l.leaveCalico(ctx, st, node); err != nil {
			return err
		}
	}
	processes := netnsProcesses([]string{node.Netns})
	for _, role := range []string{agentRole(node.Name), stnRole(node.Name)} {
		if p, ok := st.Processes[role]; ok {
			processes = append(processes, p)
		}
	}
	if err := stopAll(processes); err != nil {
		return err
	}
	delete(st.Processes, agentRole(node.Name))
	delete(st.Processes, stnRole(node.Name))
	if err := l.removeManifest(manifestName("Node", "", node.Name)); err != nil {
		return err
	}
	if err := unplugNode(st, node); err != nil {
		return err
	}
	if err := deleteNetns(node.Netns); err != nil {
		return err
	}
	st.Namespaces = slices.DeleteFunc(st.Namespaces, func(n string) bool { return n == node.Netns })
	st.Nodes = slices.DeleteFunc(st.Nodes, func(n Node) bool { return n.Name == node.Name })
	if err := l.writeCtlConfig(st); err != nil {
		return err
	}
	l.removeVPPLeftovers(node)
	return os.RemoveAll(l.Path("nodes", node.Name))
}

func (l *Lab) writeNodeFiles(st *State, n Node) error {
	if err := os.MkdirAll(l.RunDir(n.Name), 0o700); err != nil {
		return err
	}
	contiv := "# Written by contiv-lab: the defaults and the options of the lab.\n" + st.ContivConfig + VPPConfig(n)
	if n.SingleNIC {
		contiv += l.stnConfig(n)
	}
	cni := fmt.Sprintf(`{
  "cniVersion": "1.1.0",
  "name": "k8s-pod-network",
  "plugins": [
    {"type": "contiv-cni", "grpcServer": %q, "logFile": %q, "capabilities": {"portMappings": true}}
  ]
}
`, l.nodePath(n.Name, "run/cni.sock"), l.cniLog(n.Name))
	for file, content := range map[string]string{
		"contiv.conf":            contiv,
		"vpp.conf":               "# Written by contiv-lab.\n" + VPPOptions(),
		"service.conf":           "# Written by contiv-lab: the defaults and the options of the lab.\n" + st.ServiceConfig,
		"controller.conf":        "# Written by contiv-lab: the defaults.\n",
		"10-contiv-vpp.conflist": cni,
	} {
		if err := os.WriteFile(l.nodePath(n.Name, file), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) startAgent(st *State, n Node) error {
	program, args := "contiv-agent", []string{
		"--node-name", n.Name,
		"--run-dir", l.RunDir(n.Name),
		"--bolt", l.nodePath(n.Name, "bolt.db"),
		"--probe-interval", "3s",
		"--contiv-config", l.nodePath(n.Name, "contiv.conf"),
		"--service-config", l.nodePath(n.Name, "service.conf"),
		"--controller-config", l.nodePath(n.Name, "controller.conf"),
		"--http", "127.0.0.1:9999",
	}
	if st.Calico {
		program, args = "contiv-calico-routes", l.calicoArgs(n)
	}
	etcd, err := l.etcdFlags(st, n.Name)
	if err != nil {
		return err
	}
	args = slices.Concat(args, etcd, st.AgentFlags)
	if n.OnVPP() {
		program, args = "contiv-init", l.initArgs(st, n, args)
	}
	return l.start(st, agentRole(n.Name), n.Netns, program, args...)
}

func (l *Lab) awaitAgent(ctx context.Context, st *State, n Node) error {
	return l.await(ctx, "the agent of "+n.Name, st.Processes[agentRole(n.Name)], func(ctx context.Context) error {
		return l.Agent(n.Name).Ready(ctx)
	})
}

// awaitNewAgent waits for a new node and fails as soon as VPP ends.
func (l *Lab) awaitNewAgent(ctx context.Context, st *State, n Node) error {
	p := st.Processes[agentRole(n.Name)]
	return l.await(ctx, "the agent of "+n.Name, p, func(ctx context.Context) error {
		if why := vppEnded(p); n.OnVPP() && why != "" {
			return endedError{fmt.Errorf("VPP ended before it was ready: %s", why)}
		}
		return l.Agent(n.Name).Ready(ctx)
	})
}

// StartAgent starts a node's agent unless it runs, and waits until it is ready.
func (l *Lab) StartAgent(ctx context.Context, node string) error {
	return l.change(ctx, func(st *State) error {
		n, err := st.Node(node)
		if err != nil {
			return err
		}
		if st.Processes[agentRole(node)].Alive() {
			l.progress("node %s: the agent runs already", node)
		} else {
			l.progress("node %s: starting the agent", node)
			if err := l.startAgent(st, n); err != nil {
				return err
			}
		}
		if err := l.awaitAgent(ctx, st, n); err != nil {
			return err
		}
		return l.awaitCalicoRoutes(ctx, st)
	})
}

// StopAgent ends a node's agent, and its VPP, with SIGTERM.
func (l *Lab) StopAgent(ctx context.Context, node string) error {
	return l.endAgent(ctx, node, func(p Process) error { return p.stop(stopGrace) })
}

// KillAgent ends a node's agent with SIGKILL. On a node with VPP, contiv-init restarts it.
func (l *Lab) KillAgent(ctx context.Context, node string) error {
	if st, err := l.State(); err == nil {
		if n, err := st.Node(node); err == nil && n.OnVPP() {
			return l.endAgent(ctx, node, func(Process) error {
				p, err := childOf(n, agentThread)
				return errors.Join(err, p.kill())
			})
		}
	}
	return l.endAgent(ctx, node, Process.kill)
}

func (l *Lab) endAgent(ctx context.Context, node string, end func(Process) error) error {
	return l.change(ctx, func(st *State) error {
		if _, err := st.Node(node); err != nil {
			return err
		}
		if !st.Processes[agentRole(node)].Alive() {
			l.progress("node %s: the agent is stopped already", node)
			return nil
		}
		l.progress("node %s: ending the agent", node)
		return end(st.Processes[agentRole(node)])
	})
}
