package docs

import "strings"

// excused lists commands that are not run here, and where they are tested. Entries without a page
// apply to all pages.
var excused = []struct{ page, command, why string }{
	{"", "make", "TestTargetsOfMake looks whether they exist"},
	{"", "kubectl", "needs a cluster: test/e2e uses kubectl with the manifests"},
	{"", "helm", "needs a cluster and helm: test/chart renders the chart, test/e2e installs what it renders"},
	{"", "VPP_BIN=", "needs VPP: make test-vpp"},
	{"", "bin/contiv-lab up --kubernetes", "builds Kubernetes: test/e2e makes such a cluster"},
	{"", "contivctl preflight", "needs a cluster: internal/ctl/install, test/e2e"},
	{"", "contivctl install", "needs a cluster: internal/ctl/install, test/e2e"},
	{"", "bin/contivctl preflight", "needs a cluster: internal/ctl/install, test/e2e"},
	{"", "bin/contivctl install", "needs a cluster: internal/ctl/install, test/e2e"},
	{"", "contivctl upgrade", "needs a cluster: internal/ctl/install, test/e2e"},
	{"", "contivctl uninstall", "needs a cluster: internal/ctl/install, test/e2e"},
	{"", "contiv-calico-routes", "runs until it is ended: test/calico runs it with these flags"},
	{"", "contiv-etcd", "runs until it is ended, or needs such a one: cmd/contiv-etcd"},
	{"", "contiv-ksr", "runs until it is ended: cmd/contiv-ksr"},
	{"", "contiv-init", "needs VPP: cmd/contiv-init, make test-vpp"},
	{"", "contiv-agent", "changes this machine: test/standalone, cmd/contiv-agent"},
	{"", "contiv-cni", "changes this machine: cmd/contiv-cni"},
	{"docs/operator/install.md", "chown", "is for the node of etcd: test/e2e"},
	{"docs/operator/security.md", "contivctl", "needs a cluster that signs certificates: test/e2e"},
	{"docs/operator/security.md", "etcdctl", "needs a cluster that signs certificates: test/e2e"},
	{"docs/operator/stn.md", "", "needs systemd, or VPP: make test-vpp, test/e2e"},
	{"docs/design/e2e.md", "", "test/e2e"},
	{"docs/user/lab.md", "export KUBECONFIG", "is for the cluster of --kubernetes: test/e2e"},
	{"docs/user/lab.md", "bin/contiv-lab exec node1 -- ping", "is for the cluster of --kubernetes: test/e2e"},
	{"docs/user/lab.md", "bin/contiv-lab down  ", "is for the cluster of --kubernetes: test/e2e"},
	{"docs/user/lab.md", "bin/contiv-lab ctl pods  ", "is for the cluster of --kubernetes: test/e2e"},
	{"docs/user/policies.md", "contivctl denials -f", "goes on until it is interrupted: ctl"},
	{"docs/design/policies.md", "contivctl vppc", "needs VPP: make test-vpp"},
	{"docs/operator/vpp.md", "", "needs VPP: make test-vpp"},
}

// excuse returns why a command of a page is not run, "" if it is.
func excuse(page, command string) (why string, index int) {
	for i, e := range excused {
		if (e.page == "" || e.page == page) && strings.HasPrefix(command, e.command) {
			return e.why, i
		}
	}
	return "", -1
}
