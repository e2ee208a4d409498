package demo

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/test/lab"
)

func (d *demo) table() *tabwriter.Writer { return tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0) }

// ipamReport is the printed part of GET /contiv/v1/ipam.
type ipamReport struct {
	NodeIP            string `json:"nodeIP"`
	PodSubnetThisNode string `json:"podSubnetThisNode"`
}

// showNodes prints the agents' reports and checks that they agree.
func (d *demo) showNodes(ctx context.Context) error {
	nodes, err := d.lab.Nodes()
	if err != nil {
		return err
	}
	w := d.table()
	fmt.Fprintln(w, "  NODE\tID\tNODE IP\tPOD SUBNET\tNETWORK NAMESPACE")
	ids := map[uint32]string{}
	for _, n := range nodes {
		var known nodesync.NodesReport
		var addresses ipamReport
		agent := d.lab.Agent(n.Name)
		if err := errors.Join(agent.Get(ctx, nodesync.NodesURL, &known), agent.Get(ctx, "/contiv/v1/ipam", &addresses)); err != nil {
			return err
		}
		if len(known.Nodes) != len(nodes) {
			return fmt.Errorf("%s knows %d nodes, not %d", n.Name, len(known.Nodes), len(nodes))
		}
		for _, report := range known.Nodes {
			if report.Name == n.Name {
				fmt.Fprintf(w, "  %s\t%d\t%s\t%s\t%s\n", n.Name, report.ID, addresses.NodeIP, addresses.PodSubnetThisNode, n.Netns)
			}
			if other, ok := ids[report.ID]; report.ID == 0 || ok && other != report.Name {
				return fmt.Errorf("the agents do not agree: ID %d is of %s and of %s", report.ID, other, report.Name)
			}
			ids[report.ID] = report.Name
		}
	}
	return w.Flush()
}

func (d *demo) addPods(ctx context.Context) error {
	nodes, err := d.lab.Nodes()
	if err != nil {
		return err
	}
	var specs []lab.PodSpec
	for i, name := range []string{"web", "db"} {
		for _, n := range nodes {
			specs = append(specs, lab.PodSpec{Name: fmt.Sprintf("%s%d", name, len(specs)-i*len(nodes)+1), Node: n.Name})
		}
	}
	d.pods, err = d.lab.AddPods(ctx, 2, specs...)
	w := d.table()
	fmt.Fprintln(w, "  POD\tADDRESS\tNODE\tNETWORK NAMESPACE")
	for _, p := range d.pods {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", p.ID(), p.Address, p.Node, p.Netns)
	}
	return errors.Join(w.Flush(), err)
}

func (d *demo) showMatrix(ctx context.Context) error {
	m, err := d.lab.Matrix(ctx)
	if err != nil {
		return err
	}
	var printed strings.Builder
	if err := m.Write(&printed); err != nil {
		return err
	}
	d.printf("  %s\n", strings.ReplaceAll(strings.TrimSpace(printed.String()), "\n", "\n  "))
	if m.Err() != nil {
		return errors.New("not all paths work")
	}
	d.fact("each path was measured with ICMP and with TCP, %d kB each way; pods are seen by their own address, outside by their node's", lab.TCPPayload>>10)
	return nil
}

// pod returns the first pod on the n-th node, if the pods were added.
func (d *demo) pod(n int) (lab.Pod, error) {
	if len(d.pods) <= n {
		return lab.Pod{}, errors.New("the lab has no pods")
	}
	return d.pods[n], nil
}

// showWiring prints the event that added a pod, and its transaction.
func (d *demo) showWiring(ctx context.Context) error {
	pod, err := d.pod(0)
	if err != nil {
		return err
	}
	event, txn, err := wiring(ctx, d.lab, pod)
	if err != nil {
		return err
	}
	d.printf("  %s\n", strings.ReplaceAll(strings.TrimSpace(shorten(event.String())), "\n", "\n  "))
	d.printTxn(txn)
	if len(lab.Operations(txn)) == 0 {
		return fmt.Errorf("transaction #%d wired the pod without an operation", txn.SeqNum)
	}
	return nil
}

func wiring(ctx context.Context, l *lab.Lab, pod lab.Pod) (*controller.EventRecord, *kvscheduler.RecordedTxn, error) {
	agent := l.Agent(pod.Node)
	events, err := agent.Events(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range events {
		if e.Name == "Add Pod" && strings.Contains(e.Description, pod.ContainerID[:12]) && e.Txn != nil {
			txn, err := agent.Transaction(ctx, e.Txn.SeqNum)
			return e, txn, err
		}
	}
	return nil, nil, fmt.Errorf("the agent of %s has recorded no event %q with a transaction for %s", pod.Node, "Add Pod", pod.ID())
}

// printTxn prints the operations of a transaction without values.
func (d *demo) printTxn(txn *kvscheduler.RecordedTxn) {
	about, _, _ := strings.Cut(txn.Description, "\n")
	d.printf("  transaction #%d %q: %s, of which in the kernel %s\n", txn.SeqNum, shorten(about), ms(txn.Stop.Sub(txn.Start)), ms(txn.SouthboundTime))
	w := d.table()
	for i, op := range txn.Executed {
		notes := ms(op.Duration)
		if op.NOOP {
			notes = "nothing to do"
		}
		if op.NewErr != nil {
			notes = op.NewErr.Error()
		}
		fmt.Fprintf(w, "    %d.\t%s\t%s\t→ %s\t%s\n", i+1, op.Operation, shorten(op.Key), op.NewState, notes)
	}
	w.Flush()
}

var longID = regexp.MustCompile(`[0-9a-f]{40,}`)

// shorten truncates container IDs.
func shorten(text string) string {
	return longID.ReplaceAllStringFunc(text, func(id string) string { return id[:12] + "…" })
}

func (d *demo) showCommands() {
	name := d.opts.Lab.Name
	call := d.opts.Command
	if name != "" && name != lab.DefaultName {
		call += " --name " + name
	}
	if !d.opts.Keep {
		d.printf("  %s demo --keep leaves this lab running; then:\n", d.opts.Command)
	}
	w := d.table()
	for _, c := range [][2]string{
		{"status", "processes, nodes and pods"},
		{"pod add shop --node node1", "one more pod"},
		{"exec shop -- ping -c1 " + lab.OutsideAddress.Addr().String(), "a packet from it to the outside"},
		{"matrix", "all paths, measured"},
		{"ctl events", "the events, and the operations of the agents"},
		{"ctl txns 1 --node node1", "one transaction in full; without number, all in short"},
		{"ctl values --node node1", "the states of all values of a node"},
		{"ctl dump config/vpp/ --node node1", "the state of a node's kernel, read back now"},
		{"node add node3", "one more node"},
		{"node kill node1", "crash an agent; node start node1 brings it back"},
		{"etcd stop", "take the database away; etcd start brings it back"},
		{"apply -f FILE", "Kubernetes manifests"},
		{"down", "remove the lab"},
	} {
		fmt.Fprintf(w, "  %s %s\t# %s\n", call, c[0], c[1])
	}
	w.Flush()
}

// poll calls fn until it returns true or the limit has passed.
func poll(ctx context.Context, limit time.Duration, fn func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		done, err := fn()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond): // the REST API has no notifications
		}
	}
}
