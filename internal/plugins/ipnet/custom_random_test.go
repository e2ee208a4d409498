package ipnet_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/models"
)

type life struct {
	*rand.Rand
	t          *testing.T
	n          *plugintest.Node
	objects    map[string]*pod.Pod
	containers map[string]string
	added      int
}

func TestLivesOfCustomInterfaces(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			l := &life{rand.New(rand.NewPCG(seed, 0)), t, plugintest.StartNode(t, plugintest.NodeOptions{Conf: "ipamConfig: {podSubnetOneNodePrefixLen: 28}"}),
				map[string]*pod.Pod{}, map[string]string{}, 0}
			before := l.n.Scheduler.Values()
			names := []string{"a", "b", "c", "d"}
			for range 100 {
				l.step(names[l.IntN(len(names))])
			}
			for _, name := range names {
				l.del(name)
				l.change(name, nil)
			}
			l.n.Barrier()
			if diff := plugintest.Diff(before, l.n.Scheduler.Values()); diff != "" {
				t.Errorf("left:\n%s", diff)
			}
			if used, _ := l.n.IPAM.Usage(); used != 0 || len(published(t, l.n)) > 0 {
				t.Errorf("%d addresses are in use, published are %v", used, published(t, l.n))
			}
			records, _, err := l.n.Options.Local.List(ctx, "/local/")
			for _, kv := range records {
				if strings.Contains(kv.Key, "/pods/") {
					t.Errorf("left: %s %s", kv.Key, kv.Value)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func (l *life) step(name string) {
	switch l.IntN(8) {
	case 0, 1:
		var interfaces []string
		for range l.IntN(10) {
			interfaces = append(interfaces, fmt.Sprintf("net%d/tap%s", l.IntN(12), []string{"", "", "", "/stub", "/red"}[l.IntN(5)]))
		}
		l.change(name, withIfs(name, strings.Join(interfaces, ","), []string{"", "net1", "net2"}[l.IntN(3)]))
	case 2, 3:
		l.add(name)
	case 4:
		l.del(name)
	case 5:
		l.change(name, nil)
	default:
		l.resync()
	}
}

func (l *life) change(name string, next *pod.Pod) {
	switch prev := l.objects[name]; {
	case next != nil && prev != nil:
		l.n.Change(prev, next)
	case next != nil:
		l.n.Change(nil, next)
	case prev != nil:
		l.n.Change(prev, nil)
	}
	if l.objects[name] = next; next == nil {
		delete(l.objects, name)
	}
}

// add adds a sandbox. It fails one time in three, or if the subnet is full.
func (l *life) add(name string) {
	l.added++
	container := fmt.Sprint("c", l.added)
	if l.IntN(3) == 0 {
		l.n.Scheduler.FailKeys(func(txn controller.SchedulerTxn) []string {
			if !txn.Revert {
				return nil
			}
			return []string{models.Key(&vpp_interfaces.Interface{Name: "vpp-tap-" + container})}
		})
		defer l.n.Scheduler.FailKeys(nil)
	}
	reply, err := l.n.Server.Add(ctx, request(name, container))
	if err != nil {
		l.t.Fatal(err)
	}
	if delete(l.containers, name); reply.Result == 0 {
		l.containers[name] = container
	}
}

func (l *life) del(name string) {
	if l.containers[name] == "" {
		return
	}
	if reply, err := l.n.Server.Delete(ctx, request(name, l.containers[name])); err != nil || reply.Result != 0 {
		l.t.Fatalf("DEL of %s: %v, %v", name, reply, err)
	}
	delete(l.containers, name)
}

func (l *life) resync() {
	l.n.Barrier()
	before := l.n.Scheduler.Values()
	l.n.Options.State = plugintest.State()
	for _, p := range l.objects {
		l.n.Options.State["pod"]["k8s/pod/"+p.Name+"/namespace/"+p.Namespace] = p
	}
	if l.IntN(2) == 0 {
		l.n = l.n.Restart()
	} else {
		l.n.Resync()
	}
	if diff := plugintest.Diff(before, l.n.Scheduler.Values()); diff != "" {
		l.t.Errorf("a resync differs:\n%s", diff)
	}
}
