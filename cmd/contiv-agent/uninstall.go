package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/contivgrpc"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/store"
	"github.com/contiv/contiv/terminal"
	"github.com/contiv/contiv/vswitch/vpp/cnat"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

func uninstallCommand(o *options) *cobra.Command {
	var yes, dryRun bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Take everything of Contiv out of this node",
		Long: `Removes devices, addresses, routes, neighbours, chains of iptables and nftables
tables that an agent of this node made, and nothing else. Pods that still run lose their network.
The agent must not run. Give the same --bolt as to the agent: it knows the pods. With
--vswitch vpp, a VPP that runs loses its configuration as well; one that does not has none.
At a terminal it shows what it is about to remove, and asks; elsewhere it does not.

What stays: sysctls (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding, and accept_ra
of devices), for others may rely on them by now; the file of --bolt, from which
an agent that is installed again knows the pods that still run, and the history beside it; and the node's
ID in etcd, which goes with the node's Kubernetes object.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := o.start(c)
			if err != nil {
				return err
			}
			local, err := openLocal(c.Context(), *o, log)
			if err != nil {
				return err
			}
			defer local.Close()
			ask := !yes && terminal.Is(c.InOrStdin()) // uninstalling by a pod, as contivctl does it, asks nobody
			if dryRun || ask {
				if err := printRemoval(c.Context(), c.OutOrStdout(), *o, "", local, log); err != nil || dryRun {
					return err
				}
				if !terminal.Confirmed(c.InOrStdin(), c.OutOrStdout(), "Remove all this?") {
					return errors.New("nothing was removed")
				}
			}
			given, err := givenVETHs(c.Context(), *o, local, log)
			if err != nil {
				return err
			}
			return uninstall(c.Context(), *o, "", local, log, given...)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed, and which pods would lose their network, and do nothing")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return c
}

// vswitchTimeout is how long a vswitch may take to answer before it counts as gone.
const vswitchTimeout = 5 * time.Second

// uninstall makes the node match an empty intent, in the network namespace
// given ("": that of the process) and in those of the pods in the local store.
//
//  1. A resync that wants nothing but the pods' loopbacks and the values in
//     elsewhere: it removes what is on the node, and the far ends in pods go with it.
//     What is wanted leads to other namespaces, where nobody else would look.
//  2. A resync that wants nothing removes the rest.
//  3. What no value stands for.
func uninstall(ctx context.Context, o options, netns string, local store.Broker, log *slog.Logger, elsewhere ...proto.Message) error {
	sb, err := openRemoval(ctx, o, netns, log)
	if err != nil {
		return err
	}
	defer sb.Close()
	scheduler := sb.scheduler
	pods, err := livingPods(ctx, local, log)
	if err != nil {
		return err
	}
	remaining := scheduler.NewTransaction()
	for _, pod := range pods {
		loopback := ipnet.PodLoopback(pod)
		remaining.Put(models.Key(loopback), loopback)
	}
	for _, value := range elsewhere {
		remaining.Put(models.Key(value), value)
	}
	var errs []error
	for _, txn := range []*kvscheduler.Transaction{remaining, scheduler.NewTransaction()} {
		seq, err := txn.Commit(ctx, kvscheduler.WithResync(kvscheduler.FullResync), kvscheduler.WithDescription("Uninstall"))
		errs = append(errs, err)
		if record := scheduler.RecordedTxn(seq); record != nil {
			logRemoved(log, record.Executed)
		}
	}
	if vs, has := sb.vs.(uninstaller); has {
		errs = append(errs, vs.Uninstall(ctx))
	}
	errs = append(errs, cnat.ForgetHost(cmp.Or(netns, "/proc/thread-self/ns/net")))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("uninstall is incomplete, repeat it after mending this: %w", err)
	}
	log.Info("Nothing of Contiv is left on this node", "pods", len(pods))
	return nil
}

// logRemoved tells what was removed, and what could not be.
func logRemoved(log *slog.Logger, executed []kvscheduler.RecordedOp) {
	for _, op := range executed {
		if op.NewErr != nil {
			log.Warn("Not removed", "key", op.Key, "error", op.NewErr)
		} else {
			log.Info("Removed", "key", op.Key)
		}
	}
}

// openRemoval opens what is to be emptied: without a vswitch that does not run, which has nothing.
func openRemoval(ctx context.Context, o options, netns string, log *slog.Logger) (*southbound, error) {
	sb, err := openSouthbound(o, netns, nil, nil, prometheus.NewRegistry(), log)
	if err != nil {
		return nil, err
	}
	if err := sb.awaitFor(ctx, vswitchTimeout); err != nil {
		log.Info("The vswitch does not run: it has nothing to be removed", "because", err)
		sb.Close()
		return openHost(netns, nil, prometheus.NewRegistry(), log)
	}
	return sb, nil
}

// printRemoval prints what uninstall would do, and changes nothing.
func printRemoval(ctx context.Context, out io.Writer, o options, netns string, local store.Broker, log *slog.Logger) error {
	sb, err := openRemoval(ctx, o, netns, log)
	if err != nil {
		return err
	}
	defer sb.Close()
	pods, err := livingPods(ctx, local, log)
	if err != nil {
		return err
	}
	ops, err := sb.scheduler.NewTransaction().Plan(ctx, kvscheduler.WithResync(kvscheduler.FullResync))
	if err != nil {
		return err
	}
	for _, op := range ops {
		fmt.Fprintf(out, "%s is removed\n", op.Key)
	}
	if _, has := sb.vs.(uninstaller); has {
		fmt.Fprintln(out, "tables, chains and rules of Contiv, if there are any, are removed")
	}
	for _, id := range slices.SortedFunc(maps.Keys(pods), func(a, b podmanager.PodID) int { return strings.Compare(a.String(), b.String()) }) {
		fmt.Fprintf(out, "Pod %s loses its network\n", id)
	}
	return nil
}

// livingPods returns the recorded pods whose network namespaces still exist.
func livingPods(ctx context.Context, local store.Broker, log *slog.Logger) (podmanager.LocalPods, error) {
	pods, unusable, err := podmanager.LoadLocalPods(ctx, local)
	for key, reason := range unusable {
		log.Warn("Record of a local pod is unusable: what is in its namespace goes with the pod", "key", key, "error", reason)
	}
	for id, pod := range pods {
		if netns, err := podmanager.KernelNamespaces(pod.NetNS); err != nil || netns != pod.NetNSID {
			delete(pods, id)
		}
	}
	return pods, err
}

// givenVETHs returns the VETH interfaces that were configured from outside, in
// namespaces that exist: of a pair, neither end needs to be in that of the agent.
func givenVETHs(ctx context.Context, o options, local store.Broker, log *slog.Logger) (veths []proto.Message, err error) {
	add := func(value proto.Message) {
		iface, ok := value.(*linux_interfaces.Interface)
		if !ok || iface.GetType() != linux_interfaces.Interface_VETH {
			return
		}
		path, ok := models.NetNSPath(iface.GetNamespace(), models.NetNSDir)
		if !ok {
			return
		}
		if _, err := os.Stat(path); path == "" || err == nil {
			veths = append(veths, iface)
		}
	}
	mirrored, _, err := local.List(ctx, models.NodePrefix(o.nodeName)+models.LinuxInterface.KeyPrefix())
	if err != nil {
		return nil, err
	}
	for _, kv := range mirrored {
		if value, err := models.Unmarshal(strings.TrimPrefix(kv.Key, models.NodePrefix(o.nodeName)), kv.Value); err == nil {
			add(value)
		}
	}
	file, err := openFile(o.grpcBolt, log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	source, err := contivgrpc.NewSource(ctx, file, log)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	for _, items := range source.Items() {
		for _, item := range items {
			add(item.Value)
		}
	}
	return veths, nil
}
