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
		Short: "Remove Contiv from this node",
		Long: `Remove the interfaces, addresses, routes, neighbours, iptables chains and nftables tables that the agent
of this node created, and nothing else. Running pods lose their network. Stop the agent first, and use its
--bolt, which lists the pods. With --vswitch vpp, the configuration of a running VPP is removed. At a
terminal, the command lists the changes and asks for confirmation first.

Not removed are: sysctls (net.ipv4.ip_forward, net.ipv6.conf.all.forwarding, and accept_ra of interfaces),
because other software may rely on them; the file of --bolt, so that a reinstalled agent knows the running
pods, and the history next to it; and the ID of the node in etcd, which is deleted with the Node object.`,
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
			ask := !yes && terminal.Is(c.InOrStdin()) // without a terminal, as in contivctl's pod, it does not ask
			if dryRun || ask {
				if err := printRemoval(c.Context(), c.OutOrStdout(), *o, "", local, log); err != nil || dryRun {
					return err
				}
				if !terminal.Confirmed(c.InOrStdin(), c.OutOrStdout(), "Remove all of this?") {
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
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print the objects to remove and the pods that would lose their network, without removing anything")
	c.MarkFlagsMutuallyExclusive("yes", "dry-run")
	return c
}

// vswitchTimeout is how long uninstall waits for a vswitch before it counts as stopped.
const vswitchTimeout = 5 * time.Second

// uninstall removes Contiv's objects from the given network namespace ("": that of the process) and
// from those of the pods in the local store.
//
//  1. A resync that requests only the pods' loopbacks and the values in elsewhere.
//     It removes the objects on the node and, with them, their far ends in pods.
//     The requested values point to other namespaces, which would not be visited otherwise.
//  2. An empty resync removes the rest.
//  3. Objects that no value represents are removed directly.
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
		return fmt.Errorf("uninstall is incomplete: %w: fix this and repeat it", err)
	}
	log.Info("Contiv removed from this node", "pods", len(pods))
	return nil
}

// logRemoved logs the removed values, and the failures.
func logRemoved(log *slog.Logger, executed []kvscheduler.RecordedOp) {
	for _, op := range executed {
		if op.NewErr != nil {
			log.Warn("Not removed", "key", op.Key, "error", op.NewErr)
		} else {
			log.Info("Removed", "key", op.Key)
		}
	}
}

// openRemoval opens the southbound, without a vswitch that does not run and so has no state.
func openRemoval(ctx context.Context, o options, netns string, log *slog.Logger) (*southbound, error) {
	sb, err := openSouthbound(o, netns, nil, nil, prometheus.NewRegistry(), log)
	if err != nil {
		return nil, err
	}
	if err := sb.awaitFor(ctx, vswitchTimeout); err != nil {
		log.Info("Vswitch not running, nothing to remove", "because", err)
		sb.Close()
		return openHost(netns, nil, prometheus.NewRegistry(), log)
	}
	return sb, nil
}

// printRemoval is the dry run of uninstall.
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
		fmt.Fprintln(out, "all tables, chains and rules of Contiv are removed")
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
		log.Warn("Invalid local record of a pod; its network namespace is not cleaned up", "key", key, "error", reason)
	}
	for id, pod := range pods {
		if netns, err := podmanager.KernelNamespaces(pod.NetNS); err != nil || netns != pod.NetNSID {
			delete(pods, id)
		}
	}
	return pods, err
}

// givenVETHs returns externally configured VETH interfaces in existing namespaces. Neither end of
// such a pair needs to be in the agent's namespace.
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
