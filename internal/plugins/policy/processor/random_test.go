package processor_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/contiv/contiv/internal/plugins/policy/oracle"
	"github.com/contiv/contiv/internal/plugins/policy/policytest"
	"github.com/contiv/contiv/internal/plugins/policy/processor"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

var (
	steps     = flag.Int("steps", 1200, "random changes of the cluster; 1000000 for a long run")
	stepsSeed = flag.Uint64("steps.seed", 0, "of the first cluster")
)

// check compares a percentage of all pairs of ends with the oracle.
func check(t *testing.T, w *policytest.World, percent int) {
	t.Helper()
	state := policyrules.NewState()
	for _, v := range w.Values {
		state.Put(v)
	}
	cluster := w.Cluster()
	for version := range 2 {
		ends := w.Ends(version)
		for _, from := range ends {
			for _, to := range ends {
				if percent < 100 && !w.Chance(percent) {
					continue
				}
				for _, conn := range policytest.Connections(from, to) {
					checkConnection(t, w, state, cluster, conn)
				}
			}
		}
	}
}

var protocols = map[string]uint8{"TCP": policyrules.TCP, "UDP": policyrules.UDP, "SCTP": policyrules.SCTP, "ICMP": 1}

func checkConnection(t *testing.T, w *policytest.World, state *policyrules.State, cluster oracle.Cluster, conn oracle.Connection) {
	t.Helper()
	c := policyrules.Connection{Src: conn.From.Addr, Dst: conn.To.Addr, Protocol: protocols[conn.Protocol], Port: uint16(conn.Port)}
	got := state.Judge(c)
	explained := true
	for _, e := range state.Explain(c) {
		explained = explained && e.Allowed
	}
	if explained != got.Allowed {
		t.Fatalf("%+v: judged %v, explained as %+v", conn, got.Allowed, state.Explain(c))
	}
	if want := policytest.Passes(cluster, conn); got.Allowed != want {
		t.Fatalf("%+v: got %+v, want %v\npolicies %v, %v\nnamespaces %v\nvalues %v", conn, got, want, cluster.Policies, cluster.ClusterPolicies, cluster.Namespaces, w.Values)
	}
}

const worldSteps = 100

// A long run checks all pairs only after some batches: go test -timeout 0 -steps 1000000.
func TestAgreesWithOracle(t *testing.T) {
	long := *steps > 1200
	for seed := range uint64(*steps / worldSteps) {
		seed += *stepsSeed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := policytest.New(seed)
			for done, batch := 0, 0; done < worldSteps; batch++ {
				size := 1 + w.Random.IntN(4)
				for range size {
					w.Change()
				}
				done += size
				w.Take()
				percent := 100
				if long && batch%8 != 0 {
					percent = 5
				}
				check(t, w, percent)
			}
			checkFresh(t, w)
		})
	}
}

// checkFresh compares the values with a processor that got the same objects in another order.
func checkFresh(t *testing.T, w *policytest.World) {
	fresh := processor.New(policytest.Node)
	var steps []func()
	for _, p := range w.Pods {
		steps = append(steps, func() { fresh.SetPod(p) })
	}
	for id, local := range w.Processor.Locals() {
		steps = append(steps, func() { fresh.SetLocal(id, *local) })
	}
	steps = append(steps, func() { fresh.SetPublished(w.Published) })
	for _, n := range w.Namespaces {
		steps = append(steps, func() { fresh.SetNamespace(n) })
	}
	for _, p := range w.Policies {
		steps = append(steps, func() { fresh.SetPolicy(p) })
	}
	for _, p := range w.ClusterPolicies {
		steps = append(steps, func() { fresh.SetClusterPolicy(p) })
	}
	for _, n := range w.Nodes {
		steps = append(steps, func() { fresh.SetNode(n) })
	}
	w.Random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	values := map[string]proto.Message{}
	for _, step := range steps {
		step()
		if w.Chance(50) {
			changed, gone := fresh.Changes()
			for _, v := range changed {
				values[models.Key(v)] = v
			}
			for _, key := range gone {
				delete(values, key)
			}
		}
	}
	changed, gone := fresh.Changes()
	for _, v := range changed {
		values[models.Key(v)] = v
	}
	for _, key := range gone {
		delete(values, key)
	}
	for key, v := range w.Values {
		if !proto.Equal(v, values[key]) {
			t.Errorf("%s\nhave %v\nwant %v", key, v, values[key])
		}
	}
	for key := range values {
		if w.Values[key] == nil {
			t.Errorf("%s is missing", key)
		}
	}
}
