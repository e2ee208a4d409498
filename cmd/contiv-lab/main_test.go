package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/ctl"
	"golang.org/x/sys/unix"
)

func TestUnknownCommands(t *testing.T) {
	for args, want := range map[string]string{
		"frobnicate":   `unknown command "frobnicate": contiv-lab --help lists them`,
		"stauts":       `unknown command "stauts" of contiv-lab: did you mean status?`,
		"pod frob":     `unknown command "frob": contiv-lab pod --help lists them`,
		"node strat x": `unknown command "strat" of contiv-lab node: did you mean start?`,
	} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		if err := cmd.Execute(); err == nil || err.Error() != want {
			t.Errorf("contiv-lab %s: got %v, want %s", args, err, want)
		}
	}
	for _, args := range []string{"", "pod"} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(args))
		cmd.SetOut(io.Discard)
		if err := cmd.Execute(); err != nil {
			t.Errorf("contiv-lab %s should print help: %v", args, err)
		}
	}
}

// Each error names the remedy.
func TestMistakes(t *testing.T) {
	t.Setenv("VPP_BIN", "")
	for _, c := range []struct{ args, want string }{
		{"up --nodes 0", "--nodes 0: a lab needs at least one node"},
		{"up --nodes -3 --kubernetes", "--nodes -3: a lab needs at least one node"},
		{"demo --nodes 0", "--nodes 0: a lab needs at least one node"},
		{"demo --batch 0", "--batch 0: measure at least one pod"},
		{"up --nodes many", "--nodes many: use a whole number"},
		{"demo --up-limit 5", "--up-limit 5: use a time with its unit"},
		{"up --kubernetes --calico", "--kubernetes excludes --calico and --plain-text"},
		{"up --calico --dual-stack", "--config, --dual-stack and --ipv6 exclude --calico and --kubernetes"},
		{"up --calico --ipv6", "--config, --dual-stack and --ipv6 exclude --calico and --kubernetes"},
		{"up --dual-stack --ipv6", "--dual-stack and --ipv6 exclude each other"},
		{"up --kubernetes --config x", "--config, --dual-stack and --ipv6 exclude --calico and --kubernetes"},
		{"up --kubernetes --single-nic", "--kubernetes excludes --single-nic"},
		{"up --vswitch foo", `vswitch "foo": use kernel or vpp`},
		{"up --single-nic", "--single-nic is for nodes with VPP"},
		{"up --cache /tmp/x", "--source and --cache require --kubernetes"},
		{"--name x list", "list shows all labs: drop --name"},
		{"down --all --name x", "--name and --all exclude each other"},
		{"up --nodez 3", "contiv-lab up has no flag --nodez: did you mean --nodes?"},
		{"--nme x up", "contiv-lab has no flag --nme: did you mean --name?"},
		{"up --frobnicate", "contiv-lab up has no flag --frobnicate: contiv-lab up --help lists them"},
		{"up extra", `arguments "extra": usage: contiv-lab up [flags]`},
		{"pod add", "missing argument: usage: contiv-lab pod add NAME... [flags]"},
		{"pods", `unknown command "pods" of contiv-lab: did you mean pod?`},
		{"down", "no such lab: contiv; contiv-lab list shows the existing labs"},
		{"down --name nope", "no such lab: nope"},
		{"status --name nope", "no such lab: nope (contiv-lab --name nope up makes one"},
		{"list --root FILE", "not a directory"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(strings.ReplaceAll(c.args, "FILE", file))
		if !strings.Contains(c.args, "--root") {
			args = append([]string{"--root", dir}, args...)
		}
		cmd := newCommand()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		err := execute(t.Context(), cmd)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("contiv-lab %s: got %v, want %s", c.args, err, c.want)
		}
		if code := ctl.ExitCode(err); code != 3 && c.args != "list --root FILE" {
			t.Errorf("contiv-lab %s: exit code %d, %v", c.args, code, err)
		}
	}
}

// A contiv.conf that an agent would refuse creates nothing.
func TestConfigOfNodes(t *testing.T) {
	t.Setenv("VPP_BIN", "/bin/true")
	const own = "the lab selects the NIC of VPP and the socket of contiv-stn: drop "
	for content, c := range map[string]struct{ args, want string }{
		"stnSocketFile: /run/stn.sock":                        {"--single-nic --vswitch vpp", own + "stnSocketFile"},
		"stealInterface: ''":                                  {"--single-nic --vswitch vpp", own + "stealInterface"},
		"stnSocketFile: /var/run/contiv/stn.sock":             {"--single-nic --vswitch vpp", own + "stnSocketFile"},
		"mtuSize: 1300":                                       {"--ipv6", "drop --ipv6, and give networks of IPv6 in --config"},
		"ipamConfig: {podSubnetCIDR: 10.96.0.0/16}":           {"", "podSubnetCIDR 10.96.0.0/16 overlaps with serviceCIDR"},
		"podSubnetCIDR: 10.2.0.0/16":                          {"", `"podSubnetCIDR"`},
		"mtuSize: 1400":                                       {"--dual-stack", "drop --dual-stack, and give networks of both IP versions in --config"},
		"nodeConfig: [{nodeName: node1, gateway: 192.0.2.1}]": {"--vswitch vpp", "the lab selects the NIC of VPP: drop nodeConfig"},
		"stealFirstNIC: true":                                 {"", "drop nodeConfig, stealInterface"},
	} {
		file, root := filepath.Join(t.TempDir(), "contiv.conf"), t.TempDir()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := newCommand()
		cmd.SetArgs(append([]string{"--root", root, "-q", "up", "--bin-dir", root, "--config", file}, strings.Fields(c.args)...))
		if err := execute(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", content, err, c.want)
		}
	}
}

// Names that the lab does not have are usage errors.
func TestUnknownNames(t *testing.T) {
	root := t.TempDir()
	state := `{"name": "x", "phase": "running", "nodes": [{"name": "node1", "index": 1, "address": "192.168.16.1/24"}], "pods": [{"namespace": "default", "name": "web", "node": "node1"}], "processes": {}}`
	if err := os.Mkdir(filepath.Join(root, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "x", "state.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	writeNode(t, filepath.Join(root, "x"))
	for args, want := range map[string]string{
		"node stop node2":                        `lab x has no node "node2"`,
		"node kill-vpp node2":                    `lab x has no node "node2"`,
		"node del node2":                         `lab x has no node "node2"`,
		"pod add a --node node2":                 `lab x has no node "node2"`,
		"pod add outside":                        `"outside" is reserved for the host outside of the cluster`,
		"pod add node1":                          `lab x has a node node1: give the pod another name`,
		"node label node2 a=b":                   `lab x has no node "node2"`,
		"node label node1 zone":                  `label "zone": write KEY=VALUE, or KEY- to remove it`,
		"node label node1 a/b/c=d":               `label "a/b/c=d": `,
		"pod del wob":                            `lab x has no pod "default/wob"`,
		"exec wob -- true":                       `lab x has no pod and no node "wob"`,
		"matrix web wob":                         `lab x has no pod and no node "wob"`,
		"credentials ops --node node2 --dir DIR": `lab x has no node "node2"`,
		"status --name A.b":                      `"A.b" cannot be the name of a lab`,
		"apply":                                  "apply needs a file of manifests",
	} {
		cmd := newCommand()
		cmd.SetArgs(append([]string{"--root", root, "--name", "x", "-q"}, strings.Fields(strings.ReplaceAll(args, "DIR", t.TempDir()))...))
		if err := execute(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), want) || ctl.ExitCode(err) != 3 {
			t.Errorf("contiv-lab %s: exit code %d, %v, want %s", args, ctl.ExitCode(err), err, want)
		}
	}
}

// writeNode writes the object of node1 like a lab does.
func writeNode(t *testing.T, lab string) (file string) {
	t.Helper()
	file = filepath.Join(lab, "manifests", "node_node1.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Node\nmetadata: {name: node1, labels: {kubernetes.io/hostname: node1, old: x}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Node labels, such as zones, are set and removed like with kubectl.
func TestNodeLabels(t *testing.T) {
	root := t.TempDir()
	file := writeNode(t, filepath.Join(root, "x"))
	state := `{"name": "x", "phase": "running", "nodes": [{"name": "node1", "index": 1, "address": "192.168.16.1/24"}], "processes": {}}`
	if err := os.WriteFile(filepath.Join(root, "x", "state.json"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newCommand()
	cmd.SetArgs([]string{"--root", root, "--name", "x", "-q", "node", "label", "node1", "topology.kubernetes.io/zone=east", "old-"})
	if err := execute(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(data); !strings.Contains(text, "topology.kubernetes.io/zone: east") || !strings.Contains(text, "kubernetes.io/hostname: node1") || strings.Contains(text, "old") {
		t.Errorf("the object is\n%s", text)
	}
}

// Other users cannot see root's labs: the list fails instead of being empty.
func TestListOfOthersLabs(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "mine"), 0); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 { // then as a user without access
		if err := os.Chmod(root, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer unix.SetfsuidRetUid(0)
	}
	cmd := newCommand()
	cmd.SetArgs([]string{"--root", root, "list"})
	if err := ctl.Execute(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), "run the command as root") {
		t.Errorf("%v", err)
	}
}

// nobody is a user without files.
const nobody = 65534

func TestViaEtcd(t *testing.T) {
	for line, want := range map[string]bool{
		"config apply -f x --via etcd": true, "config get --via=etcd": true, "config get --via grpc": false, "config get etcd": false, "values --via": false, "": false,
	} {
		if got := viaEtcd(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
