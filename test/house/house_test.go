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
	"api":                                  {"api"},
	"internal/lib/jsontext":                {},
	"internal/lib/parallel":                {},
	"models":                               {"api", "internal/lib/config", "internal/lib/jsontext"},
	"internal/lib/version":                 {},
	"internal/lib/listener":                {},
	"internal/netlink/nsfile":              {},
	"internal/lib/logline":                 {},
	"internal/lib/terminal":                {},
	"internal/lib/rest":                    {"internal/lib/listener"},
	"internal/lib/config":                  {},
	"internal/lib/dirwatch":                {},
	"kvscheduler":                          {"api/ligato/kvscheduler", "internal/lib/jsontext", "internal/lib/parallel"},
	"kvscheduler/graph":                    {},
	"kvscheduler/record":                   {"api/ligato/kvscheduler", "internal/lib/jsontext", "internal/lib/parallel"},
	"kvscheduler/diagram":                  {"api/ligato/kvscheduler", "kvscheduler/record"},
	"kvscheduler/inspect":                  {"api/ligato/kvscheduler", "internal/lib/jsontext", "kvscheduler", "kvscheduler/record", "kvscheduler/diagram"},
	"internal/kubernetes/kubestate":        {"api", "models"},
	"internal/etcd/server":                 {"internal/lib/listener", "test/locked"}, // the last one in tests
	"internal/etcd/store":                  {"internal/lib/config", "test/loopback"}, // the last one in tests
	"internal/etcd/backup":                 {"internal/etcd/store"},
	"internal/kubernetes/election":         {"api", "internal/etcd/store", "internal/kubernetes/ksr"},
	"internal/kubernetes/kubeapi":          {"internal/kubernetes/kubeconfig"},
	"internal/kubernetes/kubeclient":       {"api", "internal/kubernetes/ksr", "internal/kubernetes/kubeapi"},
	"internal/kubernetes/kubeconfig":       {},
	"internal/lib/delta":                   {},
	"internal/lib/damper":                  {},
	"internal/kubernetes/kubeaddr":         {},
	"models/valid":                         {"models", "kvscheduler"},
	"internal/vswitch/netalloc":            {"api", "models", "kvscheduler"},
	"internal/vswitch/policyrules":         {"api", "models"},
	"internal/vswitch":                     {"api", "models", "kvscheduler"},
	"internal/vswitch/descriptors":         {"internal/vswitch/policyrules", "api", "models", "kvscheduler", "internal/vswitch/netalloc", "internal/vswitch"},
	"internal/netlink":                     {},
	"internal/netlink/nlattr":              {},
	"internal/netlink/namespace":           {},
	"internal/netlink/events":              {},
	"internal/netlink/conntrack":           {"internal/netlink/namespace", "internal/netlink/nlattr"},
	"internal/netlink/rtnl":                {"internal/netlink/nlattr", "internal/netlink/namespace"},
	"internal/netlink/nft":                 {"internal/netlink/nlattr", "internal/netlink/namespace"},
	"internal/netlink/nft/foreign":         {"internal/netlink/namespace", "internal/netlink/nlattr", "internal/netlink/xtables"},
	"internal/netlink/xtables":             {},
	"internal/agent/kubeproxy":             {"internal/netlink/nlattr", "internal/netlink/xtables"},
	"internal/netlink/nft/nfttest":         {},
	"internal/vswitch/kernel":              {"internal/vswitch/policyrules", "api", "models", "kvscheduler", "internal/vswitch/netalloc", "internal/vswitch", "internal/vswitch/descriptors", "internal/lib/delta", "internal/netlink", "internal/netlink/nsfile", "test/await", "test/locked"}, // the last two in tests
	"internal/vswitch/kernel/own":          {"api", "models", "internal/vswitch", "internal/netlink"},
	"internal/vswitch/kernel/drift":        {},
	"internal/vswitch/kernel/dhcp":         {},
	"internal/vswitch/fake":                {"internal/vswitch/policyrules", "api", "models", "kvscheduler", "internal/vswitch/netalloc", "internal/vswitch", "internal/vswitch/descriptors"},
	"internal/netlink/shield":              {},
	"internal/netlink/sockets":             {"internal/netlink/nlattr", "internal/netlink/namespace"},                                                                                                                                                                                                                                             // in tests
	"internal/vswitch/vpp":                 {"internal/netlink/shield", "internal/netlink/sockets", "internal/vswitch/policyrules", "api", "models", "kvscheduler", "internal/vswitch/netalloc", "internal/vswitch", "internal/vswitch/descriptors", "internal/lib/delta", "internal/netlink/nsfile", "test/await", "internal/netlink/namespace"}, // the last two in tests
	"internal/vswitch/vpp/vppapi":          {"internal/vswitch/vpp/vpptest"},                                                                                                                                                                                                                                                                      // in tests
	"internal/vswitch/vpp/vpptest":         {"internal/vswitch/vpp/vppapi", "internal/vswitch/vpp/startup"},
	"internal/vswitch/vpp/startup":         {},
	"internal/vswitch/vswitchtest":         {"internal/vswitch/policyrules", "api", "models", "kvscheduler", "internal/vswitch", "internal/vswitch/descriptors", "test/command"},
	"internal/vswitch/linux":               {"internal/vswitch/linux/iptables", "internal/vswitch/linux/redirects", "internal/vswitch/linux/microservices", "internal/vswitch/linux/namespaces", "api", "models", "kvscheduler", "internal/vswitch/netalloc", "internal/lib/delta", "internal/netlink", "internal/netlink/nsfile", "test/await", "test/command"}, // the last two in tests
	"internal/vswitch/linux/iptables":      {"internal/vswitch/linux/microservices", "internal/vswitch/linux/namespaces", "api", "models", "kvscheduler", "internal/netlink"},
	"internal/vswitch/linux/redirects":     {"internal/vswitch/linux/namespaces", "api", "models", "kvscheduler", "internal/netlink"},
	"internal/vswitch/linux/microservices": {"api", "models", "kvscheduler"},
	"internal/vswitch/linux/namespaces":    {"api", "models", "internal/netlink", "internal/netlink/nsfile", "test/await"}, // the last one in tests
	"internal/controller":                  {"internal/kubernetes/kubestate", "internal/lib/rest", "api", "models", "internal/lib/config", "kvscheduler", "internal/etcd/store"},
	"internal/plugins":                     {"internal/kubernetes/kubeaddr", "internal/vswitch/policyrules", "internal/lib/ping", "internal/netlink/nsfile", "internal/lib/dirwatch", "internal/lib/listener", "internal/kubernetes/kubestate", "internal/lib/rest", "api", "models", "internal/lib/config", "internal/controller", "internal/etcd/store", "internal/plugins", "kvscheduler", "test/await"}, // the last one in tests
	"internal/lib/tuning":                  {"test/await"},                                                                                                                                                                                                                                                                                                                                                  // in tests
	"internal/kubernetes/apiserver":        {"internal/kubernetes/kubeaddr"},
	"internal/agent/localstore":            {"internal/etcd/backup", "internal/etcd/store"},
	"internal/agent/southbound":            {"internal/vswitch/kernel", "internal/vswitch/vpp", "internal/vswitch/descriptors", "internal/vswitch", "api", "kvscheduler", "internal/agent/northbound", "internal/lib/damper", "internal/lib/logline", "internal/lib/rest", "internal/netlink/conntrack", "internal/plugins"},
	"internal/agent/uninstall":             {"internal/agent/localstore", "internal/agent/southbound", "internal/etcd/store", "internal/plugins", "internal/vswitch/vpp/cnat", "internal/vswitch/kernel", "internal/vswitch/descriptors", "internal/vswitch/linux", "api", "models", "kvscheduler", "test/command"}, // the driver of the kernel, descriptors, linux and test/command in tests
	"internal/agent/valuecheck":            {"internal/agent/southbound", "internal/lib/config", "internal/vswitch", "internal/vswitch/fake", "models", "kvscheduler"},
	"internal/agent/stnreport":             {"internal/agent/southbound", "internal/controller", "internal/plugins", "internal/stn/client", "api"},
	"internal/agent/pods":                  {"internal/agent/health", "internal/plugins", "internal/vswitch/kernel/own"},
	"internal/agent/hostinfo":              {"internal/netlink/sockets", "internal/plugins", "internal/vswitch/linux"},
	"internal/agent/nodepath":              {"internal/agent/hostinfo", "internal/agent/pathexplain", "internal/agent/pods", "internal/agent/southbound", "internal/plugins", "internal/vswitch", "internal/vswitch/kernel/own", "internal/vswitch/kernel/redirect", "api"},
	"internal/agent/readiness":             {"internal/agent/health", "internal/etcd/store", "internal/lib/rest", "internal/lib/version", "models", "test/await"}, // the last one in tests
	"internal/agent/northbound":            {"internal/etcd/store", "internal/lib/listener", "internal/lib/parallel", "internal/lib/rest", "api", "models", "internal/controller", "kvscheduler", "internal/plugins"},
	"internal/etcd/pki":                    {},
	"internal/lib/metrics":                 {},
	"internal/lib/metrics/endpoint":        {"internal/lib/listener", "internal/lib/rest"},
	"internal/agent/activity":              {"api", "internal/controller", "internal/agent/health", "kvscheduler", "internal/lib/version"},
	"internal/kubernetes/ksr":              {"internal/kubernetes/kubeaddr", "internal/kubernetes/kubeapi", "internal/agent/health/published", "internal/lib/metrics", "internal/etcd/pki", "internal/lib/dirwatch", "internal/kubernetes/kubestate", "internal/lib/rest", "api", "models", "internal/lib/config", "internal/etcd/store", "test/locked"}, // the last one in tests
	"internal/kubernetes/ksr/conditions":   {"internal/agent/health/published", "internal/kubernetes/kubeapi", "internal/kubernetes/kubestate", "models", "internal/etcd/store"},
	"internal/kubernetes/ksr/access":       {"internal/etcd/pki", "internal/kubernetes/kubestate", "api", "models", "internal/lib/config", "internal/etcd/store", "internal/etcd/server", "test/await", "test/locked"},                         // the last three in tests
	"internal/kubernetes/ksr/signer":       {"internal/kubernetes/kubeaddr", "internal/kubernetes/kubeapi", "internal/kubernetes/ksr/access", "internal/kubernetes/ksr/credentials", "internal/etcd/pki", "internal/etcd/store", "test/await"}, // tests request what they sign
	"internal/cni":                         {"internal/lib/listener", "internal/lib/logline", "api"},
	"client":                               {"api", "models", "internal/lib/parallel", "internal/etcd/store", "internal/etcd/server"},
	"client/clienttest":                    {"api", "models", "internal/etcd/store", "internal/lib/listener", "internal/controller", "kvscheduler", "internal/agent/northbound", "internal/plugins"},
	"internal/ctl":                         {"internal/agent/pathexplain", "internal/vswitch/vpp/startup", "internal/lib/terminal", "test/benchmark", "internal/vswitch/policyrules", "client", "internal/agent/health", "internal/agent/history", "internal/agent/northbound/ifstate", "internal/lib/listener", "internal/kubernetes/kubestate", "internal/lib/rest", "api", "models", "internal/lib/config", "internal/lib/jsontext", "internal/lib/parallel", "kvscheduler", "internal/controller", "internal/plugins", "internal/etcd/store", "internal/lib/version"},
	"internal/ctl/status":                  {"internal/ctl/target", "internal/ctl/text", "internal/agent/health", "internal/plugins"},
	"internal/agent/history":               {"test/benchmark", "api", "internal/controller", "internal/lib/jsontext", "kvscheduler", "internal/lib/rest"},
	"internal/agent/history/journal":       {},
	"internal/agent/health":                {"internal/agent/health/published", "api", "kvscheduler", "internal/lib/rest", "internal/etcd/store"},
	"internal/agent/health/published":      {"internal/kubernetes/kubestate", "models"},
	"internal/agent/health/peers":          {"internal/lib/ping", "test/benchmark", "internal/agent/health", "internal/lib/rest"},
	"internal/agent/pathexplain":           {"internal/lib/ping", "internal/netlink", "internal/lib/rest"},
	"internal/ctl/podpath":                 {"api", "internal/ctl/target", "internal/agent/northbound/ifstate", "internal/plugins"},
	"internal/ctl/kube":                    {"internal/ctl/target", "internal/ctl/text"},
	"internal/ctl/why":                     {"internal/agent/pathexplain", "internal/kubernetes/kubeaddr", "internal/ctl/target", "internal/ctl/text", "internal/agent/health", "internal/plugins"},
	"internal/lib/ping":                    {},
	"internal/ctl/report":                  {"api/ligato/kvscheduler", "internal/controller", "internal/ctl/target", "internal/agent/health", "internal/agent/history", "kvscheduler", "internal/agent/northbound/ifstate", "internal/plugins", "internal/lib/rest", "internal/lib/version"},
	"internal/ctl/text":                    {"internal/lib/terminal", "internal/lib/config"},
	"internal/ctl/flags":                   {"internal/ctl/text"},
	"internal/ctl/target":                  {"internal/ctl/text", "internal/lib/rest", "api", "models", "internal/lib/config", "internal/etcd/store", "test/await"}, // the last one in tests
	"internal/ctl/install":                 {"internal/kubernetes/kubeaddr", "internal/ctl/kube", "internal/ctl/text", "internal/lib/terminal", "internal/lib/config", "internal/controller", "internal/netlink", "internal/plugins", "internal/etcd/store", "internal/vswitch/vpp/startup", "deploy"},
	"deploy":                               {},
	"internal/stn":                         {"api", "internal/netlink", "internal/stn", "internal/lib/listener", "test/command"}, // the last one in tests
	"internal/calico":                      {"internal/etcd/store"},
	"internal/calico/datastore":            {},
	"internal/calico/routes":               {"internal/calico/datastore"},
	"internal/calico/central":              {"internal/kubernetes/election", "internal/etcd/store", "internal/lib/delta", "internal/kubernetes/ksr", "internal/calico"},
	"internal/calico/kubernetes":           {"internal/calico/datastore", "internal/kubernetes/kubeapi"},
	"internal/calico/program":              {"api", "models", "internal/lib/delta", "kvscheduler", "client", "internal/calico/routes"},
	"hack":                                 {},
	"cmd":                                  {"*"},
	"test":                                 {"*"},

	"internal/plugins/podmanager/cniserver": {"api", "internal/lib/listener"},
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
	for _, above := range []string{"internal/vswitch/kernel", "internal/vswitch/fake", "internal/vswitch/vpp", "internal/vswitch/descriptors"} {
		if pkg == above || strings.HasPrefix(pkg, above+"/") {
			return true
		}
	}
	return false
}
