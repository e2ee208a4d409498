package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/contiv/contiv/"

// rooms lists, for each room (a package path prefix), the rooms that it and its tests may import. A
// room may always import itself. The longest matching prefix applies.
var rooms = map[string][]string{
	"api":                  {"api"},
	"jsontext":             {},
	"parallel":             {},
	"models":               {"api", "config", "jsontext"},
	"version":              {},
	"listener":             {},
	"nsfile":               {},
	"logline":              {},
	"terminal":             {},
	"rest":                 {"listener"},
	"config":               {},
	"dirwatch":             {},
	"kvscheduler":          {"api/ligato/kvscheduler", "jsontext", "parallel"},
	"kvscheduler/graph":    {},
	"kvscheduler/record":   {"api/ligato/kvscheduler", "jsontext", "parallel"},
	"kvscheduler/diagram":  {"api/ligato/kvscheduler", "kvscheduler/record"},
	"kvscheduler/inspect":  {"api/ligato/kvscheduler", "jsontext", "kvscheduler", "kvscheduler/record", "kvscheduler/diagram"},
	"dbresources":          {"api", "models"},
	"etcdserver":           {"listener", "test/locked"}, // the last one in tests
	"store":                {"config", "test/loopback"}, // the last one in tests
	"delta":                {},
	"damper":               {},
	"kubeaddr":             {},
	"models/valid":         {"models", "kvscheduler"},
	"netalloc":             {"api", "models", "kvscheduler"},
	"filter":               {"api", "models"},
	"vswitch":              {"api", "models", "kvscheduler"},
	"vswitch/descriptor":   {"api", "models", "kvscheduler", "vswitch"},
	"vswitch/descriptors":  {"filter", "api", "models", "kvscheduler", "netalloc", "vswitch"},
	"netlink":              {},
	"netlink/nlattr":       {},
	"netlink/namespace":    {},
	"netlink/events":       {},
	"netlink/conntrack":    {"netlink/namespace", "netlink/nlattr"},
	"netlink/rtnl":         {"netlink/nlattr", "netlink/namespace"},
	"netlink/nft":          {"netlink/nlattr", "netlink/namespace"},
	"netlink/nft/foreign":  {"netlink/namespace", "netlink/nlattr", "netlink/xtables"},
	"netlink/xtables":      {},
	"netlink/kubeproxy":    {"netlink/nlattr", "netlink/xtables"},
	"netlink/nft/nfttest":  {},
	"vswitch/kernel":       {"filter", "api", "models", "kvscheduler", "netalloc", "vswitch", "vswitch/descriptors", "delta", "netlink", "nsfile", "test/await", "test/locked"}, // the last two in tests
	"vswitch/kernel/own":   {"api", "models", "vswitch", "netlink"},
	"vswitch/kernel/drift": {},
	"vswitch/kernel/dhcp":  {},
	"vswitch/fake":         {"filter", "api", "models", "kvscheduler", "netalloc", "vswitch", "vswitch/descriptors"},
	"netlink/shield":       {},
	"netlink/sockets":      {"netlink/nlattr", "netlink/namespace"},                                                                                                                                             // in tests
	"vswitch/vpp":          {"netlink/shield", "netlink/sockets", "filter", "api", "models", "kvscheduler", "netalloc", "vswitch", "vswitch/descriptors", "delta", "nsfile", "test/await", "netlink/namespace"}, // the last two in tests
	"vswitch/vpp/vppapi":   {"vswitch/vpp/vpptest"},                                                                                                                                                             // in tests
	"vswitch/vpp/vpptest":  {"vswitch/vpp/vppapi", "vswitch/vpp/startup"},
	"vswitch/vpp/startup":  {},
	"vswitch/vswitchtest":  {"filter", "api", "models", "kvscheduler", "vswitch", "vswitch/descriptors", "test/command"},
	"linux":                {"linux/iptables", "linux/redirects", "linux/microservices", "linux/namespaces", "api", "models", "kvscheduler", "netalloc", "delta", "netlink", "nsfile", "test/await", "test/command"}, // the last two in tests
	"linux/iptables":       {"linux/microservices", "linux/namespaces", "api", "models", "kvscheduler", "netlink"},
	"linux/redirects":      {"linux/namespaces", "api", "models", "kvscheduler", "netlink"},
	"linux/microservices":  {"api", "models", "kvscheduler"},
	"linux/namespaces":     {"api", "models", "netlink", "nsfile", "test/await"}, // the last one in tests
	"controller":           {"dbresources", "rest", "api", "models", "config", "kvscheduler", "store"},
	"plugins":              {"kubeaddr", "filter", "health/ping", "nsfile", "dirwatch", "listener", "dbresources", "rest", "api", "models", "config", "controller", "store", "plugins", "kvscheduler", "test/await"}, // the last one in tests
	"northbound":           {"store", "listener", "parallel", "rest", "api", "models", "controller", "kvscheduler", "plugins"},
	"pki":                  {},
	"metrics":              {},
	"metrics/endpoint":     {"listener", "rest"},
	"metrics/activity":     {"api", "controller", "health", "kvscheduler", "version"},
	"ksr":                  {"kubeaddr", "health/published", "metrics", "pki", "dirwatch", "dbresources", "rest", "api", "models", "config", "store", "test/locked"}, // the last one in tests
	"ksr/conditions":       {"health/published", "dbresources", "models", "store"},
	"ksr/access":           {"pki", "dbresources", "api", "models", "config", "store", "etcdserver", "test/await", "test/locked"}, // the last three in tests
	"ksr/signer":           {"kubeaddr", "ksr/access", "ksr/credentials", "pki", "store", "test/await"},                           // tests request what they sign
	"cni":                  {"listener", "logline", "api"},
	"client":               {"api", "models", "parallel", "store", "etcdserver"},
	"client/clienttest":    {"api", "models", "store", "listener", "controller", "kvscheduler", "northbound", "plugins"},
	"ctl":                  {"vswitch/vpp/startup", "terminal", "test/benchmark", "filter", "client", "health", "history", "northbound/ifstate", "listener", "dbresources", "rest", "api", "models", "config", "jsontext", "parallel", "kvscheduler", "controller", "plugins", "store", "version"},
	"ctl/status":           {"ctl/target", "ctl/text", "health", "plugins"},
	"history":              {"test/benchmark", "api", "controller", "jsontext", "kvscheduler", "rest"},
	"history/journal":      {},
	"health":               {"health/published", "api", "kvscheduler", "rest", "store"},
	"health/published":     {"dbresources", "models"},
	"health/peers":         {"test/benchmark", "health", "rest"},
	"health/path":          {"health/ping", "netlink", "rest"},
	"ctl/podpath":          {"api", "ctl/target", "northbound/ifstate", "plugins"},
	"ctl/kube":             {"ctl/target", "ctl/text"},
	"ctl/why":              {"kubeaddr", "ctl/target", "ctl/text", "health", "plugins"},
	"health/ping":          {},
	"ctl/report":           {"api/ligato/kvscheduler", "controller", "ctl/target", "health", "history", "kvscheduler", "northbound/ifstate", "plugins", "rest", "version"},
	"ctl/text":             {"terminal", "config"},
	"ctl/flags":            {"ctl/text"},
	"ctl/target":           {"ctl/text", "rest", "api", "models", "config", "store", "test/await"}, // the last one in tests
	"ctl/install":          {"kubeaddr", "ctl/kube", "ctl/text", "terminal", "config", "controller", "netlink", "plugins", "store", "vswitch/vpp/startup", "deploy"},
	"deploy":               {},
	"stn":                  {"api", "netlink", "stn", "listener", "test/command"}, // the last one in tests
	"calico":               {"store"},
	"calico/datastore":     {},
	"calico/routes":        {"calico/datastore"},
	"calico/central":       {"store", "delta", "ksr", "calico"},
	"calico/kubernetes":    {"calico/datastore"},
	"calico/program":       {"api", "models", "delta", "kvscheduler", "client", "calico/routes"},
	"hack":                 {},
	"cmd":                  {"*"},
	"test":                 {"*"},

	// contiv-cni leaves most of its work to the agent.
	"plugins/podmanager/cniserver": {"api", "cni", "listener"},
}

func TestImportDirections(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		checkFile(t, path, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkFile(t *testing.T, path, rel string) {
	t.Helper()
	room, allowed, ok := roomOf(filepath.ToSlash(filepath.Dir(rel)))
	if !ok {
		t.Errorf("%s: the folder is no room of the house: add it to the architecture and to this test", rel)
		return
	}
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range file.Imports {
		name, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		target, ours := strings.CutPrefix(name, module)
		if ours && !mayImport(room, allowed, target) {
			t.Errorf("%s: %s must not import %s", rel, room, target)
		}
	}
}

func roomOf(dir string) (room string, allowed []string, ok bool) {
	for candidate := dir; candidate != "."; candidate = filepath.ToSlash(filepath.Dir(candidate)) {
		for _, some := range []map[string][]string{rooms, kernelRooms, descriptorRooms} {
			if allowed, ok := some[candidate]; ok {
				return candidate, allowed, true
			}
		}
	}
	return "", nil, false
}

func mayImport(room string, allowed []string, target string) bool {
	for _, prefix := range append(allowed, room) {
		if prefix == "*" || target == prefix || strings.HasPrefix(target, prefix+"/") {
			// Permission for "vswitch" does not include its drivers and descriptors.
			if prefix != "*" && isAbovePort(target) && !isAbovePort(prefix) {
				continue
			}
			return true
		}
	}
	return false
}

// isAbovePort reports whether a package is a vswitch driver or contains descriptors.
func isAbovePort(pkg string) bool {
	for _, above := range []string{"vswitch/kernel", "vswitch/fake", "vswitch/vpp", "vswitch/descriptors"} {
		if pkg == above || strings.HasPrefix(pkg, above+"/") {
			return true
		}
	}
	return false
}
