package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pluginDir is the directory of plugins of Debian's containernetworking-plugins.
const pluginDir = "/usr/lib/cni"

// hostLocal returns the IPAM part of a configuration and the directory of leases.
func hostLocal(t *testing.T, subnet string) (config map[string]any, leases string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(pluginDir, "host-local")); err != nil {
		t.Skipf("install the Debian package containernetworking-plugins, or run make packages: %v", err)
	}
	dir := t.TempDir()
	return map[string]any{"cniVersion": "1.0.0", "ipam": map[string]any{"type": "host-local", "dataDir": dir, "subnet": subnet}}, filepath.Join(dir, "k8s-pod-network")
}

// leased lists the addresses assigned by host-local.
func leased(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.*"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, file := range files {
		list = append(list, filepath.Base(file))
	}
	return strings.Join(list, " ")
}

func (c call) inPluginDir() call {
	c.env = append(c.env, "CNI_PATH="+pluginDir)
	return c
}

func TestDelegatedIPAM(t *testing.T) {
	for name, test := range map[string]struct {
		subnet, address string
	}{
		"a subnet of its own":          {"10.77.0.0/24", "10.77.0.2"},
		"the node's":                   {"usePodCidr", "10.9.3.2"},
		"the node's, case-insensitive": {"usepodCIDR", "10.9.3.2"},
	} {
		t.Run(name, func(t *testing.T) {
			config, leases := hostLocal(t, test.subnet)
			a := &agent{reply: podReply(), status: &cni.StatusReply{Ready: true, Pod_CIDRs: []string{"10.9.3.0/24"}}}
			socket := listen(t, a)
			out, failure := call{command: "ADD", socket: socket, config: config}.inPluginDir().run(t)
			if failure != nil {
				t.Fatal(failure)
			}
			var data struct{ Address, Gateway string }
			if err := json.Unmarshal([]byte(a.last.IpamData), &data); err != nil {
				t.Fatalf("ipam_data %q: %v", a.last.IpamData, err)
			}
			if a.last.IpamType != "host-local" || data.Address != test.address+"/24" || data.Gateway == "" {
				t.Errorf("the agent got type %q, data %s", a.last.IpamType, a.last.IpamData)
			}
			if got := leased(t, leases); got != test.address {
				t.Errorf("leased %q, want %s", got, test.address)
			}
			config["prevResult"] = json.RawMessage(out)
			if _, failure := (call{command: "CHECK", socket: socket, config: config}).inPluginDir().run(t); failure != nil {
				t.Errorf("CHECK: %v", failure)
			}
			// The address is released even without the agent.
			if _, failure := (call{command: "DEL", socket: "/nonexistent/cni.sock", config: config}).inPluginDir().run(t); failure != nil {
				t.Errorf("DEL: %v", failure)
			}
			if got := leased(t, leases); got != "" {
				t.Errorf("after DEL, %s is leased", got)
			}
			if _, failure := (call{command: "CHECK", socket: socket, config: config}).inPluginDir().run(t); failure == nil || !strings.Contains(failure.Msg, "host-local") {
				t.Errorf("CHECK after DEL: %+v", failure)
			}
		})
	}
}

// A dual-stack node has two pod subnets: the pod gets an address from each.
func TestDelegatedIPAMWithBothPodSubnets(t *testing.T) {
	podCIDR := map[string]any{"subnet": "usePodCidr"}
	for name, ipam := range map[string]map[string]any{
		"subnet":                 podCIDR,
		"ranges":                 {"ranges": [][]any{{podCIDR}}},
		"one of its own besides": {"ranges": [][]any{{podCIDR}, {map[string]any{"subnet": "10.77.0.0/24"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			config, leases := hostLocal(t, "")
			ipam["type"], ipam["dataDir"] = "host-local", filepath.Dir(leases)
			config["ipam"] = ipam
			want := []string{"10.9.3.2/24", "fd10:1::2/64"}
			if name == "one of its own besides" {
				want = append(want, "10.77.0.2/24")
			}
			a := &agent{reply: podReply(), status: &cni.StatusReply{Ready: true, Pod_CIDRs: []string{"10.9.3.0/24", "fd10:1::/64"}}}
			socket := listen(t, a)
			if _, failure := (call{command: "ADD", socket: socket, config: config}).inPluginDir().run(t); failure != nil {
				t.Fatal(failure)
			}
			var data []struct{ Address string }
			if err := json.Unmarshal([]byte(a.last.IpamData), &data); err != nil {
				t.Fatalf("ipam_data %q: %v", a.last.IpamData, err)
			}
			var got []string
			for _, d := range data {
				got = append(got, d.Address)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the agent got %v, want %v", got, want)
			}
			for _, command := range []string{"DEL", "DEL"} {
				if _, failure := (call{command: command, socket: "/nonexistent/cni.sock", config: config}).inPluginDir().run(t); failure != nil {
					t.Errorf("%s: %v", command, failure)
				}
			}
			left, err := os.ReadDir(leases)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range left {
				if f.Name() != "lock" && !strings.HasPrefix(f.Name(), "last_reserved_ip") {
					t.Errorf("after DEL, %s is leased", f.Name())
				}
			}
		})
	}
}

// The leases of a failed ADD are released; an address in use is not.
func TestDelegatedIPAMFollowsTheAgent(t *testing.T) {
	config, leases := hostLocal(t, "10.77.0.0/24")
	a := &agent{reply: &cni.CNIReply{Result: 1, Error: "no route"}}
	socket := listen(t, a)
	if _, failure := (call{command: "ADD", socket: socket, config: config}).inPluginDir().run(t); failure == nil || !strings.Contains(failure.Details, "no route") {
		t.Errorf("ADD: %+v", failure)
	}
	if got := leased(t, leases); got != "" {
		t.Errorf("after an ADD that failed, %s is leased", got)
	}
	a.reply = podReply()
	if _, failure := (call{command: "ADD", socket: socket, config: config}).inPluginDir().run(t); failure != nil {
		t.Fatal(failure)
	}
	a.reply = &cni.CNIReply{Result: 1, Error: "busy"}
	if _, failure := (call{command: "DEL", socket: socket, config: config}).inPluginDir().run(t); failure == nil || !strings.Contains(failure.Details, "busy") {
		t.Errorf("DEL: %+v", failure)
	}
	if got := leased(t, leases); got != "10.77.0.3" {
		t.Errorf("after a DEL that failed, %q is leased", got)
	}
}

func TestDelegatedIPAMErrors(t *testing.T) {
	unknown := &agent{reply: podReply(), status: &cni.StatusReply{Ready: true}}
	for name, test := range map[string]struct {
		command, version, subnet string
		agent                    *agent
		code                     uint
		want                     string
	}{
		"pod subnet not known":               {"ADD", "1.0.0", "usePodCidr", unknown, 11, "podCIDR"},
		"agent away":                         {"ADD", "1.0.0", "usePodCidr", nil, 11, "not reachable"},
		"agent fails":                        {"ADD", "1.0.0", "usePodCidr", &agent{err: status.Error(codes.Internal, "panic")}, 100, "panic"},
		"malformed subnet":                   {"ADD", "1.0.0", "10.1.0.0/99", unknown, 999, "10.1.0.0/99"},
		"version that host-local has not":    {"ADD", "1.1.0", "10.77.0.0/24", unknown, 1, "host-local"},
		"STATUS that host-local has not":     {"STATUS", "1.1.0", "10.77.0.0/24", unknown, 50, "host-local"},
		"STATUS while the subnet is unknown": {"STATUS", "1.1.0", "usePodCidr", unknown, 50, "podCIDR"},
	} {
		t.Run(name, func(t *testing.T) {
			config, _ := hostLocal(t, test.subnet)
			config["cniVersion"] = test.version
			socket := "/nonexistent/cni.sock"
			if test.agent != nil {
				socket = listen(t, test.agent)
			}
			_, failure := call{command: test.command, socket: socket, config: config}.inPluginDir().run(t)
			if failure == nil || failure.Code != test.code || !strings.Contains(failure.Msg+failure.Details, test.want) {
				t.Errorf("got %+v, want code %d with %q", failure, test.code, test.want)
			}
		})
	}
	config, _ := hostLocal(t, "10.77.0.0/24")
	config["ipam"] = map[string]any{"type": "no-such-plugin"}
	if _, failure := (call{command: "ADD", socket: "/nonexistent/cni.sock", config: config}).inPluginDir().run(t); failure == nil || !strings.Contains(failure.Details, "no-such-plugin") {
		t.Errorf("plugin that is not installed: %+v", failure)
	}
}
