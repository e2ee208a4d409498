package calico

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// Follows docs/operator/calico.md: two commands make a lab in which pods communicate across nodes, and
// remove it completely.
func TestLab(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a lab makes network namespaces; run the test as root")
	}
	opts := lab.Options{Name: fmt.Sprintf("cl%d", os.Getpid()), BinDir: binaries}
	contivLab := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(binaries, "contiv-lab"), append([]string{"--name", opts.Name}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("contiv-lab %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := contivLab(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Cleanup(func() {
		if l, err := lab.Open(opts); err == nil && t.Failed() {
			t.Log(labtest.Logs(l))
		}
		if err := labtest.Down(opts); err != nil {
			t.Error(err)
		}
	})
	said := must("up", "--calico")
	for _, want := range []string{"node3", "10.244.0.128/26", "fd00:10:244::80/122", "contiv-lab --name " + opts.Name + " matrix"} {
		if !strings.Contains(said, want) {
			t.Errorf("up does not say %q: %s", want, said)
		}
	}
	// Pods of all nodes, nodes and the outside host, over both IP versions.
	if got := must("matrix"); strings.Count(got, "pod → pod, across nodes   6 of 6") != 2 || strings.Count(got, "pod → outside             3 of 3") != 2 {
		t.Errorf("the matrix is\n%s", got)
	}
	if got := must("status"); !strings.Contains(got, "fd00:10:244::41") {
		t.Errorf("the status is\n%s", got)
	}
	if got := must("ctl", "values"); !strings.Contains(got, "10.244.0.64/26") || !strings.Contains(got, "fd00:10:244::40/122") {
		t.Errorf("contivctl shows\n%s", got)
	}

	l, err := lab.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.DeleteRoute(t.Context(), "node1", netip.MustParsePrefix("10.244.0.64/26")); err != nil {
		t.Error(err)
	}
	route := func(to, want string) {
		t.Helper()
		await.That(t, fmt.Sprintf("node1 has the route %q to %s", want, to), func() error {
			family := "-4"
			if strings.Contains(to, ":") {
				family = "-6"
			}
			got, err := l.Exec(t.Context(), "node1", "ip", family, "route", "show", to)
			if err == nil && (want == "" && got != "" || !strings.Contains(got, want)) {
				err = errors.New(got)
			}
			return err
		})
	}

	// Nodes and pods are added and removed. An address is reused after its pod is gone.
	must("node", "add", "edge")
	must("pod", "add", "--node", "edge", "x", "y")
	must("matrix", "x", "y", "pod1")
	must("pod", "del", "x")
	if got := must("pod", "add", "--node", "edge", "z"); !strings.Contains(got, "10.244.0.193") {
		t.Errorf("the address of x is not given to z: %s", got)
	}
	must("matrix", "y", "z", "pod1")
	route("fd00:10:244::c0/122", "via 2001:db8:16::4")
	must("node", "del", "edge")
	route("10.244.0.192/26", "")
	route("fd00:10:244::c0/122", "")

	// Without etcd, packets flow. Commands that need etcd fail at once and change nothing.
	must("etcd", "stop")
	must("matrix", "pod1", "pod3")
	for _, args := range [][]string{{"pod", "add", "w"}, {"node", "add", "edge"}} {
		if out, err := contivLab(args...); err == nil || !strings.Contains(out, "etcd start starts it") {
			t.Errorf("without etcd: %v: %s", err, out)
		}
	}
	must("etcd", "start")
	must("pod", "add", "w")
	must("node", "add", "edge")

	// Other nodes remove the routes to a node whose program ended, and restore them.
	must("node", "kill", "node2")
	route("10.244.0.64/26", "")
	must("node", "start", "node2")
	must("matrix", "pod1", "pod2")

	if out, err := contivLab("apply", "-f", os.DevNull); err == nil || !strings.Contains(out, "Calico") {
		t.Errorf("apply: %v: %s", err, out)
	}
	must("down")
	if left, err := lab.Leftovers(opts); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
