package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/calico/ipamdata"
	"sigs.k8s.io/yaml"
)

// calicoResources contains the Calico definitions that its IPAM needs.
const calicoResources = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.crd.projectcalico.org}
spec:
  group: crd.projectcalico.org
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
`

// calicoHost is a host with contiv-calico-routes that reads the API server: an additional host on
// the nodes' network, with a node's name.
type calicoHost struct {
	*testing.T
	netns, dir string
}

func (h calicoHost) apply(manifest string) {
	h.Helper()
	if _, err := cluster.KubectlInput(h.Context(), strings.NewReader(manifest), "apply", "-f", "-"); err != nil {
		h.Fatal(err)
	}
}

// cleanup runs kubectl after the test; it logs errors.
func (h calicoHost) cleanup(args ...string) {
	h.Cleanup(func() {
		if out, err := cluster.Kubectl(context.Background(), args...); err != nil && h.Failed() {
			h.Logf("kubectl %v: %v: %s", args, err, out)
		}
	})
}

func (h calicoHost) block(b ipamdata.Block) {
	h.Helper()
	h.apply(fmt.Sprintf("apiVersion: crd.projectcalico.org/v1\nkind: IPAMBlock\nmetadata: {name: %s}\nspec: %s\n", blockName(b.CIDR), b.JSON()))
}

// blockName returns Calico's object name of a block.
func blockName(cidr netip.Prefix) string {
	return strings.NewReplacer(".", "-", "/", "-", ":", "-").Replace(cidr.String())
}

// route waits until the host has a route to a destination that contains the text, or none if the
// text is empty.
func (h calicoHost) route(destination, text string) {
	h.Helper()
	await.That(h, fmt.Sprintf("route to %s: %q", destination, text), func() error {
		out, err := exec.Command("ip", "-n", h.netns, "route", "show", destination).CombinedOutput()
		if err == nil && (text == "" && len(out) > 0 || !strings.Contains(string(out), text)) {
			err = errors.New("it is not there")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// kubeconfig writes a kubeconfig for a ServiceAccount with the manifest's rights.
func (h calicoHost) kubeconfig(account string) string {
	h.Helper()
	view := func(path string) string { return kubectl(h.T, "config", "view", "--raw", "-o", "jsonpath="+path) }
	named := func(kind string, fields map[string]any) []any {
		return []any{map[string]any{"name": "x", kind: fields}}
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"clusters": named("cluster", map[string]any{"server": view("{.clusters[0].cluster.server}"), "certificate-authority": view("{.clusters[0].cluster.certificate-authority}")}),
		"users":    named("user", map[string]any{"token": kubectl(h.T, "create", "token", account, "-n", "kube-system")}),
		"contexts": named("context", map[string]any{"cluster": "x", "user": "x"}),
	})
	file := filepath.Join(h.dir, "kubeconfig")
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		h.Fatal(err)
	}
	return file
}

// With Calico's data in Kubernetes, contiv-calico-routes reads blocks, affinities and Nodes from a
// real API server and writes its annotation, with exactly the manifest's rights.
func TestCalicoRoutesFollowTheAPIServer(t *testing.T) {
	needCluster(t)
	st, err := cluster.Lab().State()
	if err != nil {
		t.Fatal(err)
	}
	h := calicoHost{t, cluster.Lab().Name() + "-routes", t.TempDir()}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", h.netns).Run() })
	for _, command := range []string{
		"netns add " + h.netns,
		"-n " + h.netns + " link set lo up",
		"-n " + st.Underlay() + " link add routes master nodes type veth peer name eth0 netns " + h.netns,
		"-n " + st.Underlay() + " link set routes up",
		"-n " + h.netns + " link set eth0 up",
		"-n " + h.netns + " address add 192.168.16.200/24 dev eth0",
	} {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", command, err, out)
		}
	}
	h.apply(fmt.Sprintf(calicoResources, "ipamblocks", "IPAMBlock", "ipamblock") + fmt.Sprintf(calicoResources, "blockaffinities", "BlockAffinity", "blockaffinity"))
	definitions := []string{"crd/ipamblocks.crd.projectcalico.org", "crd/blockaffinities.crd.projectcalico.org"}
	h.cleanup(slices.Concat([]string{"delete", "--wait=false"}, definitions)...)
	kubectl(t, slices.Concat([]string{"wait", "--for=condition=Established", "--timeout=30s"}, definitions)...)

	manifest, err := os.ReadFile("../../deploy/calico/contiv-calico-routes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rights []string
	for object := range strings.SplitSeq(string(manifest), "\n---\n") {
		if strings.Contains(object, "kind: ServiceAccount\nmetadata") || strings.Contains(object, "rbac.authorization.k8s.io/v1\n") {
			rights = append(rights, object)
		}
	}
	if len(rights) != 3 {
		t.Fatalf("the manifest has %d objects about rights", len(rights))
	}
	h.apply(strings.Join(rights, "\n---\n"))
	const account = "contiv-calico-routes"
	h.cleanup("delete", "--wait=false", "clusterrole/"+account, "clusterrolebinding/"+account)
	h.cleanup("delete", "--wait=false", "-n", "kube-system", "serviceaccount/"+account)

	own, others, claimed := netip.MustParsePrefix("10.66.0.0/26"), netip.MustParsePrefix("10.66.0.64/26"), netip.MustParsePrefix("10.66.0.128/26")
	h.block(ipamdata.Block{CIDR: own, Host: "node1"})
	h.block(ipamdata.Block{CIDR: others, Host: "node2", Used: map[int]ipamdata.Use{1: {Node: "node2"}, 2: {Node: "node1"}}})

	var log bytes.Buffer
	program := exec.Command("ip", "netns", "exec", h.netns, filepath.Join(options.BinDir, "contiv-calico-routes"),
		"--datastore", "kubernetes", "--kubeconfig", h.kubeconfig(account), "--hostname", "node1", "--uplink", "eth0", "--ttl", "5s", "--run-dir", h.dir, "--http", "")
	program.Stdout, program.Stderr = &log, &log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	const annotation = "contivpp.io/calico-peerip-ipv4"
	h.cleanup("annotate", "node", "node1", "node2", annotation+"-")
	t.Cleanup(func() {
		program.Process.Signal(os.Interrupt)
		program.Wait()
		if t.Failed() {
			t.Logf("contiv-calico-routes:\n%s", &log)
		}
	})
	h.route(others.String(), "via 192.168.16.2") // the InternalIP
	h.route(own.String(), "blackhole")
	await.That(t, "the Node has the address", func() error {
		if got := kubectl(t, "get", "node", "node1", "-o", `jsonpath={.metadata.annotations.contivpp\.io/calico-peerip-ipv4}`); got != "192.168.16.200" {
			return fmt.Errorf("its annotation is %q", got)
		}
		return nil
	})

	kubectl(t, "annotate", "node", "node2", annotation+"=192.168.16.202")
	h.route(others.String(), "via 192.168.16.202")
	kubectl(t, "annotate", "node", "node2", annotation+"-")
	h.route(others.String(), "via 192.168.16.2")

	affinity := fmt.Sprintf("apiVersion: crd.projectcalico.org/v1\nkind: BlockAffinity\nmetadata: {name: node2-%s}\nspec: {cidr: %s, node: node2, state: %%s, deleted: \"false\"}\n", blockName(claimed), claimed)
	h.apply(fmt.Sprintf(affinity, "confirmed"))
	h.route(claimed.String(), "via 192.168.16.2")
	h.apply(fmt.Sprintf(affinity, "pendingDeletion"))
	h.route(claimed.String(), "")

	// node2 borrows one of our addresses; an invalid block fails alone.
	h.apply("apiVersion: crd.projectcalico.org/v1\nkind: IPAMBlock\nmetadata: {name: broken}\nspec: {cidr: 10.66.0.192/40, affinity: 7}\n")
	h.block(ipamdata.Block{CIDR: own, Host: "node1", Used: map[int]ipamdata.Use{5: {Node: "node2"}}})
	h.route("10.66.0.5", "via 192.168.16.2")
	h.block(ipamdata.Block{CIDR: own, Host: "node1"})
	h.route("10.66.0.5", "")

	kubectl(t, "delete", "ipamblock.crd.projectcalico.org", blockName(others))
	h.route(others.String(), "")
	h.route(own.String(), "blackhole")
}
