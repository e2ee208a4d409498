package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type operator struct {
	*testing.T
	lab    *lab.Lab
	etcd   *clientv3.Client
	prefix string
}

func newOperator(t *testing.T, l *lab.Lab, node string) *operator {
	t.Helper()
	etcd, err := l.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t, l, etcd, models.NodePrefix(node)}
	t.Cleanup(func() {
		for _, prefix := range []string{"config/", "resync/"} {
			if _, err := etcd.Delete(context.Background(), o.prefix+prefix, clientv3.WithPrefix()); err != nil {
				t.Error(err)
			}
		}
		await.That(t, "all statuses are removed", func() error {
			answer, err := etcd.Get(context.Background(), o.prefix+models.StatusPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err == nil && answer.Count > 0 {
				err = fmt.Errorf("%d are there, e.g. %s", answer.Count, answer.Kvs[0].Key)
			}
			return err
		})
		etcd.Close()
	})
	return o
}

// put writes alternating keys and values in one transaction and returns its revision.
func (o *operator) put(pairs ...string) (revision int64) {
	o.Helper()
	var ops []clientv3.Op
	for i := 0; i < len(pairs); i += 2 {
		ops = append(ops, clientv3.OpPut(o.prefix+pairs[i], pairs[i+1]))
	}
	answer, err := o.etcd.Txn(o.Context()).Then(ops...).Commit()
	if err != nil {
		o.Fatal(err)
	}
	return answer.Header.Revision
}

// await waits for the status of a value at the given revision. want is a prefix of the status.
func (o *operator) await(key string, revision int64, want string) *feedbackpb.ValueStatus {
	o.Helper()
	status := &feedbackpb.ValueStatus{}
	await.That(o.T, key+" is "+want, func() error {
		answer, err := o.etcd.Get(o.Context(), o.prefix+models.StatusPrefix+key)
		if err != nil {
			return err
		}
		if answer.Count == 0 {
			return errors.New("no status")
		}
		status.Reset()
		if err := protojson.Unmarshal(answer.Kvs[0].Value, status); err != nil {
			return err
		}
		text := status.GetValue().GetState().String()
		for _, more := range append([]string{status.GetValue().GetError()}, status.GetValue().GetDetails()...) {
			if more != "" {
				text += ": " + more
			}
		}
		if status.GetRevision() != revision || !strings.HasPrefix(text, want) {
			return fmt.Errorf("revision %d is %s", status.GetRevision(), text)
		}
		return nil
	})
	return status
}

func (o *operator) run(command, want string) {
	o.Helper()
	out, err := contivLab(o.T, o.lab, strings.Fields(command)...)
	if err != nil || !strings.Contains(out, want) {
		o.Errorf("contiv-lab %s: error %v, no %q in:\n%s", command, err, want, out)
	}
}

func TestNorthboundThroughEtcd(t *testing.T) {
	l := require(t)
	o := newOperator(t, l, "node1")
	const (
		loop, tap, late = "config/vpp/v2/interfaces/nbloop", "config/vpp/v2/interfaces/nbtap", "config/vpp/v2/interfaces/nblate"
		route           = "config/vpp/v2/route/if/nblate/vrf/0/dst/10.222.9.0/24"
		loopValue       = `{"name":"nbloop","type":"SOFTWARE_LOOPBACK","enabled":true,"ip_addresses":["10.222.1.1/24"]}`
	)
	// One etcd transaction with three keys becomes one transaction of the agent.
	binary, err := proto.Marshal(&vpp_interfaces.Interface{
		Name: "nbtap", Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{"10.222.2.1/24"},
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rev := o.put(loop, loopValue, tap, string(binary), route, `{"outgoing_interface":"nblate","dst_network":"10.222.9.0/24"}`)
	configured := o.await(loop, rev, "CONFIGURED")
	if len(configured.GetDerivedValues()) == 0 {
		t.Error("no derived values")
	}
	pending := o.await(route, rev, "PENDING: ")
	if waits := strings.Join(pending.GetWaitsFor(), ", "); !strings.Contains(waits, late) {
		t.Errorf("the route waits for %s", waits)
	}
	if both := o.await(tap, rev, "CONFIGURED"); both.GetTransaction() != configured.GetTransaction() || pending.GetTransaction() != configured.GetTransaction() {
		t.Errorf("the three values were in the transactions %d, %d and %d", configured.GetTransaction(), both.GetTransaction(), pending.GetTransaction())
	}
	o.run(fmt.Sprintf("ctl txns %d --node node1", configured.GetTransaction()), loop)
	o.run("exec node1 -- ip -o addr", "10.222.1.1/24")
	o.run("exec node1 -- ip -o addr", "10.222.2.1/24")

	// Add the dependency of the pending route.
	lateRev := o.put(late, `{"name":"nblate","type":"SOFTWARE_LOOPBACK","enabled":true,"ipAddresses":["10.222.3.1/24"]}`)
	o.await(late, lateRev, "CONFIGURED")
	o.await(route, rev, "CONFIGURED")
	o.run("exec node1 -- ip route", "10.222.9.0/24")

	// Invalid values are reported and have no effect.
	bad := o.put(loop, `{"name":"nbloop","type":"LOOPBACK"}`, "config/vpp/v2/interface/nbloop", `{}`, "config/vpp/v2/interfaces/nbx", "\xff")
	o.await(loop, bad, "INVALID: ")
	o.await("config/vpp/v2/interface/nbloop", bad, `INVALID: key "config/vpp/v2/interface/nbloop" matches no model: did you mean "config/vpp/v2/interfaces/`)
	o.await("config/vpp/v2/interfaces/nbx", bad, "INVALID: ")
	o.run("exec node1 -- ip -o addr", "10.222.1.1/24")
	o.run("ctl explain --node node1 "+loop, "stays in force")
	o.await(route, rev, "CONFIGURED")

	// The agent reports values that the vswitch does not implement.
	cannot := o.put("config/vpp/v2/interfaces/nbmemif", `{"name":"nbmemif","type":"MEMIF","memif":{"id":1,"socket_filename":"/tmp/nb.sock"}}`)
	o.await("config/vpp/v2/interfaces/nbmemif", cannot, "UNIMPLEMENTED: ")

	// A restarted agent applies and reports changes from its downtime.
	if err := l.StopAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	rev = o.put(loop, loopValue)
	if _, err := o.etcd.Delete(t.Context(), o.prefix+tap); err != nil {
		t.Fatal(err)
	}
	if err := l.StartAgent(t.Context(), "node1"); err != nil {
		t.Fatal(err)
	}
	o.await(loop, rev, "CONFIGURED")
	await.That(t, "the status of a deleted value is removed", func() error {
		answer, err := o.etcd.Get(t.Context(), o.prefix+models.StatusPrefix+tap)
		if err == nil && answer.Count > 0 {
			err = fmt.Errorf("it is %s", answer.Kvs[0].Value)
		}
		return err
	})
}

func TestMergeIsExplained(t *testing.T) {
	l := require(t)
	o := newOperator(t, l, "node1")
	const key = "config/vpp/v2/interfaces/podGwLoop"
	rev := o.put(key, `{"name":"podGwLoop","ip_addresses":["10.222.4.1/32"]}`)
	o.await(key, rev, "CONFIGURED")
	o.run("exec node1 -- ip -o addr", "10.222.4.1/32")
	for _, want := range []string{"wanted by   internal: name=podGwLoop", "db: name=podGwLoop  ip_addresses=10.222.4.1/32", "merged: name=podGwLoop"} {
		o.run("ctl explain --node node1 "+key, want)
	}
}

func TestResyncThroughEtcd(t *testing.T) {
	l := require(t)
	o := newOperator(t, l, "node1")
	for _, kind := range []string{"full", "upstream", "downstream"} {
		rev := o.put("resync/nb", `{"type":"`+kind+`"}`)
		var status feedbackpb.ResyncStatus
		await.That(t, kind+" is answered", func() error {
			answer, err := o.etcd.Get(t.Context(), o.prefix+models.StatusPrefix+"resync/nb")
			if err != nil || answer.Count == 0 {
				return fmt.Errorf("no answer: %v", err)
			}
			if err := protojson.Unmarshal(answer.Kvs[0].Value, &status); err != nil {
				return err
			}
			if status.GetRevision() != rev {
				return fmt.Errorf("answer to revision %d, not %d", status.GetRevision(), rev)
			}
			return nil
		})
		if status.GetError() != "" || status.GetTransaction() == 0 {
			t.Errorf("answer: %v", &status)
		}
		o.run(fmt.Sprintf("ctl txns %d --node node1", status.GetTransaction()), kind+" resync")
	}
}

// A value in a microservice is pending until the pod exists, survives a restart of the agent, and
// moves to a replacement of the pod.
func TestMicroservices(t *testing.T) {
	l := require(t)
	o := newOperator(t, l, "node1")
	const (
		linuxKey, vppKey = "config/linux/interfaces/v2/interface/", "config/vpp/v2/interfaces/"
		cnf1             = `"namespace":{"type":"MICROSERVICE","reference":"cnf1"}`
		label            = "contivpp.io/microservice-label"
	)
	// A VETH pair, and two TAPs linked to Linux interfaces.
	rev := o.put(
		linuxKey+"msfar", `{"name":"msfar","type":"VETH","enabled":true,"ip_addresses":["10.223.1.2/24"],`+cnf1+`,"veth":{"peer_if_name":"msnear"}}`,
		linuxKey+"msnear", `{"name":"msnear","type":"VETH","enabled":true,"ip_addresses":["10.223.1.1/24"],"veth":{"peer_if_name":"msfar"}}`,
		vppKey+"mstap2", `{"name":"mstap2","type":"TAP","enabled":true,"ip_addresses":["10.223.2.1/24"],"tap":{"to_microservice":"cnf1"}}`,
		linuxKey+"mstap2-linux", `{"name":"mstap2-linux","type":"TAP_TO_VPP","enabled":true,"ip_addresses":["10.223.2.2/24"],`+cnf1+`,"tap":{"vpp_tap_if_name":"mstap2"}}`,
		vppKey+"mstap3", `{"name":"mstap3","type":"TAP","enabled":true,"ip_addresses":["10.223.3.1/24"],"tap":{"host_`+cnf1[1:]+`}}`,
		linuxKey+"mstap3-linux", `{"name":"mstap3-linux","type":"TAP_TO_VPP","enabled":true,"ip_addresses":["10.223.3.2/24"],`+cnf1+`,"tap":{"vpp_tap_if_name":"mstap3"}}`,
	)
	all := []string{linuxKey + "msfar", linuxKey + "msnear", vppKey + "mstap2", linuxKey + "mstap2-linux", vppKey + "mstap3", linuxKey + "mstap3-linux"}
	wait := func() {
		t.Helper()
		for _, key := range all {
			pending := o.await(key, rev, "PENDING: ")
			if waits := strings.Join(pending.GetWaitsFor(), ", "); key != linuxKey+"msnear" && !strings.Contains(waits, "microservice-available: linux/microservice/cnf1") {
				t.Errorf("%s waits for %s", key, waits)
			}
		}
	}
	wait()
	add := func(name string) lab.Pod {
		t.Helper()
		spec := lab.PodSpec{Name: name, Node: "node1", Template: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "cnf1"}}}}
		return labtest.AddPods(t, l, spec)[0]
	}
	reaches := func(p lab.Pod) {
		t.Helper()
		for _, key := range all {
			o.await(key, rev, "CONFIGURED")
		}
		for _, address := range []string{"10.223.1.1", "10.223.2.1", "10.223.3.1"} {
			if out, err := l.Exec(t.Context(), p.ID(), "ping", "-c1", "-W20", address); err != nil {
				t.Errorf("%s from %s: %v %s", address, p.ID(), err, out)
			}
		}
	}
	first := add("cnf-a")
	reaches(first)
	requireRestartWithoutOperations(t, l, "node1")
	reaches(first)

	if err := l.DelPod(t.Context(), first.ID()); err != nil {
		t.Fatal(err)
	}
	wait()
	reaches(add("cnf-b"))
	if answer, err := o.etcd.Delete(t.Context(), o.prefix+"config/", clientv3.WithPrefix()); err != nil || answer.Deleted != int64(len(all)) {
		t.Fatal(answer, err)
	}
}
