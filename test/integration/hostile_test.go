package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/internal/plugins/configdir"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/models/manifest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/hostile"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hostileLab is a lab that writes hostile values for node1.
type hostileLab struct {
	*lab.Lab
	etcd *clientv3.Client
	dir  string // of northbound values
	// good holds the keys of the valid values, which must stay CONFIGURED.
	good map[string]bool
	pods int
}

func newHostileLab(t *testing.T) *hostileLab {
	require(t)
	l := &hostileLab{dir: filepath.Join(t.TempDir(), "values"), good: map[string]bool{}}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	opts := options("ho")
	opts.AgentFlags = []string{"--config-dir", l.dir}
	l.Lab = labtest.Up(t, opts)
	labtest.AddPods(t, l.Lab, lab.PodSpec{Name: "good1", Node: "node1"}, lab.PodSpec{Name: "good2", Node: "node2"})
	var err error
	if l.etcd, err = l.Etcd(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.etcd.Close() })
	labtest.RequireQuiet(t, l.Lab)
	for key := range l.states(t, "node1") {
		l.good[key] = true
	}
	return l
}

// states returns the states of the scheduler's values, including derived ones. Each text begins
// with the state.
func (l *hostileLab) states(t *testing.T, node string) map[string]string {
	t.Helper()
	var statuses []record.Status
	if err := l.Agent(node).Get(t.Context(), "/scheduler/status", &statuses); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, s := range statuses {
		for _, v := range append(s.GetDerivedValues(), s.GetValue()) {
			if v.GetState() != pb.ValueState_OBTAINED {
				states[v.GetKey()] = fmt.Sprintf("%v %.300s %q", v.GetState(), v.GetError(), v.GetDetails())
			}
		}
	}
	return states
}

func (l *hostileLab) wantGood(t *testing.T, when string) {
	t.Helper()
	states := l.states(t, "node1")
	for _, key := range slices.Sorted(maps.Keys(l.good)) {
		if !strings.HasPrefix(states[key], pb.ValueState_CONFIGURED.String()) {
			t.Errorf("%s: %s is %s", when, key, states[key])
		}
	}
}

func (l *hostileLab) process(t *testing.T, node string) lab.Process {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	return st.Processes["agent/"+node]
}

func (l *hostileLab) wantAlive(t *testing.T, when, node string, before lab.Process) {
	t.Helper()
	if now := l.process(t, node); now.PID != before.PID || !now.Alive() {
		t.Fatalf("%s: the agent of %s has ended", when, node)
	}
	if err := l.Agent(node).Ready(t.Context()); err != nil {
		t.Errorf("%s: the agent of %s: %v", when, node, err)
	}
}

func (l *hostileLab) addAndDel(t *testing.T, when string) {
	t.Helper()
	l.pods++
	p, err := l.AddPod(t.Context(), lab.PodSpec{Name: fmt.Sprint("new", l.pods), Node: "node1"})
	if err != nil {
		t.Errorf("%s: ADD: %v", when, err)
		return
	}
	if _, err := l.CNI(t.Context(), "CHECK", p.ID()); err != nil {
		t.Errorf("%s: CHECK: %v", when, err)
	}
	if err := l.DelPod(t.Context(), p.ID()); err != nil {
		t.Errorf("%s: DEL: %v", when, err)
	}
}

func (l *hostileLab) resync(t *testing.T, node string) {
	t.Helper()
	if err := l.Agent(node).Post(t.Context(), "/controller/resync", nil); err != nil {
		t.Errorf("resync of %s: %v", node, err)
	}
}

// southbound returns the kernel objects of a node that an agent may have created.
func (l *hostileLab) southbound(t *testing.T) string {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	netns := st.Nodes[0].Netns
	text := command.In(t, netns, "ip -br link | sed 's/ *[A-Z].*//' | sort; ip rule; ip -6 rule; ip route show table all proto 99 | sort; ip -6 route show table all proto 99 | sort")
	for line := range strings.Lines(command.In(t, netns, "nft list ruleset")) {
		if strings.Contains(line, "elements = {") && !strings.Contains(line, "packets") && !strings.Contains(line, "ct count") && !strings.Contains(line, "expires") {
			text += line
		}
	}
	return text
}

// way is a source of northbound values of node1.
type way struct {
	put    func(t *testing.T, values []hostile.Keyed)
	remove func(t *testing.T)
}

func (l *hostileLab) ways(t *testing.T) map[string]way {
	prefix := models.NodePrefix("node1")
	grpc, err := client.DialGRPC("unix://"+l.RunDir("node1")+"/grpc.sock", client.GRPC{Name: "hostile"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { grpc.Close() })
	garbage := []string{"", "null", "{", "[]", "\x00", "\xff\xfe\x00", `{"name":5}`, `{"name":{"name":{}}}`, `{"no_such_field":1}`, `{"name":"` + strings.Repeat("x", 1<<20) + `"}`,
		strings.Repeat("[", 1<<16), "\x1b[2J", `{"name":"\u0000"}`}
	files := 0 // of several files with the same value, the last one wins
	return map[string]way{
		"etcd": {
			func(t *testing.T, values []hostile.Keyed) {
				for _, v := range values {
					data, err := models.Marshal(v.Message)
					if err != nil {
						continue
					}
					if _, err := l.etcd.Put(t.Context(), prefix+v.Key, string(data)); err != nil {
						t.Logf("etcd refuses %s (%s): %.200v", v.Key[:min(len(v.Key), 200)], v.What, err)
					}
				}
				for i, m := range models.All() {
					for j, text := range garbage {
						if (i+j)%5 == 0 {
							if _, err := l.etcd.Put(t.Context(), fmt.Sprintf("%s%sgarbage%d", prefix, m.KeyPrefix(), j), text); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			},
			func(t *testing.T) {
				if _, err := l.etcd.Delete(t.Context(), prefix+"config/", clientv3.WithPrefix()); err != nil {
					t.Fatal(err)
				}
			},
		},
		"gRPC": {
			func(t *testing.T, values []hostile.Keyed) {
				for _, v := range values {
					_, err := grpc.Txn().Put(v.Message).Commit(t.Context())
					if code := status.Code(errors.Unwrap(err)); code == codes.Unavailable || code == codes.Internal || errors.Is(err, context.Canceled) {
						t.Errorf("put of %s (%s): %v", v.Key, v.What, err)
					}
				}
			},
			func(t *testing.T) {
				if _, err := grpc.Resync(t.Context()); err != nil {
					t.Error(err)
				}
			},
		},
		"directory": {
			func(t *testing.T, values []hostile.Keyed) {
				for _, v := range values {
					text, err := manifest.Format([]manifest.Value{{Key: v.Key, Message: v.Message}})
					if err != nil {
						continue
					}
					files++
					l.write(t, fmt.Sprintf("h%05d.yaml", files), text)
				}
				for i, text := range garbage {
					l.write(t, fmt.Sprintf("garbage%d.yaml", i), []byte(text))
				}
				l.write(t, "a name\x1b[2J\n.yaml", []byte("key: x"))
				_ = os.Symlink("loop.yaml", filepath.Join(l.dir, "loop.yaml"))
				_ = os.Mkdir(filepath.Join(l.dir, "folder.yaml"), 0o700)
			},
			func(t *testing.T) {
				entries, err := os.ReadDir(l.dir)
				for _, e := range entries {
					err = errors.Join(err, os.RemoveAll(filepath.Join(l.dir, e.Name())))
				}
				if err != nil {
					t.Error(err)
				}
			},
		},
	}
}

func (l *hostileLab) write(t *testing.T, name string, data []byte) {
	t.Helper()
	// Rename the file, as the documentation requires.
	temporary := filepath.Join(filepath.Dir(l.dir), "temporary")
	if err := errors.Join(os.WriteFile(temporary, data, 0o600), os.Rename(temporary, filepath.Join(l.dir, name))); err != nil {
		t.Fatal(err)
	}
}

// Passes hostile values of all models to an agent through each northbound source. Valid values stay
// CONFIGURED, ADD works, the agent does not restart, and nothing remains after their removal.
func TestHostileValues(t *testing.T) {
	l := newHostileLab(t)
	before := l.southbound(t)
	for name, way := range l.ways(t) {
		t.Run(name, func(t *testing.T) {
			perModel := 8
			if os.Getenv("HOSTILE_LONG") != "" {
				perModel = 100
			}
			taken := maps.Clone(l.good)
			var values []hostile.Keyed
			for _, m := range models.All() {
				values = append(values, hostile.OfModel(t, labtest.Root, m, perModel, []string{"podGwLoop", "vxlanBVI", "10.1.1.1/24", "10.1.1.2", "10.96.0.1"}, taken)...)
			}
			layers := hostile.Layers(values)
			t.Logf("%d values in %d layers", len(values), len(layers))
			process := l.process(t, "node1")
			for i, layer := range layers {
				when := fmt.Sprintf("layer %d", i)
				barrier := &vpp_interfaces.Interface{Name: "barrier", Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true, IpAddresses: []string{fmt.Sprintf("10.222.%d.1/24", i)}}
				way.put(t, append(layer, hostile.Keyed{Key: models.Key(barrier), Value: hostile.Value{Message: barrier, What: "barrier"}}))
				await.That(t, when+" is processed", func() error {
					if out := command.In(t, l.node(t).Netns, "ip -br addr"); !strings.Contains(out, fmt.Sprintf("10.222.%d.1/24", i)) {
						var directory configdir.Status
						_ = l.Agent("node1").Get(t.Context(), configdir.URL, &directory)
						return fmt.Errorf("%s, directory: %s, %d files", l.states(t, "node1")[models.Key(barrier)], directory.Err, len(directory.Files))
					}
					return nil
				})
				if i%10 == 0 || i == len(layers)-1 {
					l.resync(t, "node1")
					l.addAndDel(t, when)
				}
				l.wantGood(t, when)
				l.wantAlive(t, when, "node1", process)
				if t.Failed() {
					return
				}
			}
			if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
				t.Fatal(err)
			}
			process = l.process(t, "node1")
			l.wantGood(t, "after a restart")
			l.addAndDel(t, "after a restart")
			l.resync(t, "node1")
			l.wantGood(t, "after a restart and a resync")
			l.wantAlive(t, "after a restart", "node1", process)
			way.remove(t)
			await.That(t, "all is removed", func() error {
				for key, state := range l.states(t, "node1") {
					if !l.good[key] {
						return fmt.Errorf("%s is %s", key, state)
					}
				}
				return nil
			})
			l.wantAlive(t, "after the removal", "node1", process)
			l.addAndDel(t, "after the removal")
			labtest.RequireQuiet(t, l.Lab)
			if after := l.southbound(t); after != before {
				t.Errorf("left on the node:\n%s", difference(before, after))
			}
			p1, p2 := l.pod(t, "good1"), l.pod(t, "good2")
			if err := ping(t, p1, p2); err != nil {
				t.Error(err)
			}
		})
	}
}

func (l *hostileLab) pod(t *testing.T, name string) lab.Pod {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	p, err := st.Pod(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (l *hostileLab) node(t *testing.T) lab.Node {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	return st.Nodes[0]
}

func difference(before, after string) string {
	var b bytes.Buffer
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			fmt.Fprintln(&b, "-", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			fmt.Fprintln(&b, "+", line)
		}
	}
	return b.String()
}
