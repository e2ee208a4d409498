// Package uninstall removes the objects that the agent of a node created, and nothing else.
package uninstall

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
	"github.com/contiv/contiv/internal/agent/localstore"
	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/plugins/contivgrpc"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/vswitch/vpp/cnat"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
)

// vswitchTimeout is how long Run waits for a vswitch before it counts as stopped.
const vswitchTimeout = 5 * time.Second

// Run removes Contiv's objects from the network namespace of o, and from the namespaces of the pods in
// the local store. veths are the result of ConfiguredVETHs.
//
//  1. A resync that requests only the pods' loopbacks and veths.
//     It removes the objects on the node and, with them, their far ends in pods.
//     The requested values point to other namespaces, which would not be visited otherwise.
//  2. An empty resync removes the rest.
//  3. Objects that no value represents are removed directly.
func Run(ctx context.Context, o southbound.Options, local store.Broker, veths ...proto.Message) error {
	sb, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer sb.Close()
	scheduler := sb.Scheduler
	pods, err := runningPods(ctx, local, o.Log)
	if err != nil {
		return err
	}
	remaining := scheduler.NewTransaction()
	for _, pod := range pods {
		loopback := ipnet.PodLoopback(pod)
		remaining.Put(models.Key(loopback), loopback)
	}
	for _, value := range veths {
		remaining.Put(models.Key(value), value)
	}
	var errs []error
	for _, txn := range []*kvscheduler.Transaction{remaining, scheduler.NewTransaction()} {
		seq, err := txn.Commit(ctx, kvscheduler.WithResync(kvscheduler.FullResync), kvscheduler.WithDescription("Uninstall"))
		errs = append(errs, err)
		if record := scheduler.RecordedTxn(seq); record != nil {
			logRemoved(o.Log, record.Executed)
		}
	}
	if removeRest := sb.Uninstaller(); removeRest != nil {
		errs = append(errs, removeRest(ctx))
	}
	errs = append(errs, cnat.ForgetHost(cmp.Or(o.NetNS, "/proc/thread-self/ns/net")))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("uninstall is incomplete: %w: fix this and repeat it", err)
	}
	o.Log.Info("Contiv removed from this node", "pods", len(pods))
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

// open opens the southbound, without a vswitch that does not run and so has no state.
func open(ctx context.Context, o southbound.Options) (*southbound.Southbound, error) {
	o.Metrics = prometheus.NewRegistry()
	sb, err := southbound.Open(o)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, vswitchTimeout)
	defer cancel()
	if err := sb.Await(waiting); err != nil {
		o.Log.Info("Vswitch not running, nothing to remove", "because", err)
		sb.Close()
		o.Metrics = prometheus.NewRegistry()
		return southbound.OpenWithoutVSwitch(o)
	}
	return sb, nil
}

// Preview prints the objects that Run would remove, and the pods that would lose their network.
func Preview(ctx context.Context, out io.Writer, o southbound.Options, local store.Broker) error {
	sb, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer sb.Close()
	pods, err := runningPods(ctx, local, o.Log)
	if err != nil {
		return err
	}
	ops, err := sb.Scheduler.NewTransaction().Plan(ctx, kvscheduler.WithResync(kvscheduler.FullResync))
	if err != nil {
		return err
	}
	for _, op := range ops {
		fmt.Fprintf(out, "%s is removed\n", op.Key)
	}
	if sb.Uninstaller() != nil {
		fmt.Fprintln(out, "all tables, chains and rules of Contiv are removed")
	}
	for _, id := range slices.SortedFunc(maps.Keys(pods), func(a, b podmanager.PodID) int { return strings.Compare(a.String(), b.String()) }) {
		fmt.Fprintf(out, "Pod %s loses its network\n", id)
	}
	return nil
}

// runningPods returns the recorded pods whose network namespaces still exist.
func runningPods(ctx context.Context, local store.Broker, log *slog.Logger) (podmanager.LocalPods, error) {
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

// ConfiguredVETHs returns the VETH interfaces that clients configured in existing namespaces, by etcd,
// which local mirrors, or by the file of gRPC clients. Neither end of such a pair needs to be in the
// agent's namespace.
func ConfiguredVETHs(ctx context.Context, node string, local store.Broker, grpcFile string, log *slog.Logger) (veths []proto.Message, err error) {
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
	mirrored, _, err := local.List(ctx, models.NodePrefix(node)+models.LinuxInterface.KeyPrefix())
	if err != nil {
		return nil, err
	}
	for _, kv := range mirrored {
		if value, err := models.Unmarshal(strings.TrimPrefix(kv.Key, models.NodePrefix(node)), kv.Value); err == nil {
			add(value)
		}
	}
	file, err := localstore.OpenFile(grpcFile, log)
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
