package e2e

import (
	"context"
	"os"
	"path/filepath"

	"github.com/contiv/contiv/test/lab"
	"sigs.k8s.io/yaml"
)

// startProxy starts a node's kube-proxy, which makes services, including etcd's, reachable before a
// pod network exists.
func (c *Cluster) startProxy(ctx context.Context, n lab.Node) error {
	config, err := yaml.Marshal(map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"mode":               "iptables",
		"hostnameOverride":   n.Name,
		"clientConnection":   map[string]any{"kubeconfig": c.kubeconfig("proxy")},
		"detectLocalMode":    "ClusterCIDR",
		"clusterCIDR":        c.joined(podsOf),
		"healthzBindAddress": "127.0.0.1:10256",
		"metricsBindAddress": "127.0.0.1:10249",
		// These settings affect the machine, not a network namespace.
		"conntrack":   map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
		"oomScoreAdj": 0,
	})
	if err != nil {
		return err
	}
	file := c.nodePath(n.Name, "kube-proxy.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	c.progress("starting kube-proxy on %s", n.Name)
	return c.lab.StartGuest(ctx, lab.Guest{
		Role:    proxyRole(n.Name),
		Netns:   n.Netns,
		Command: []string{filepath.Join(c.opts.KubernetesDir, "kube-proxy"), "--config=" + file},
		Ready:   func(ctx context.Context) error { return getOK(ctx, n.Netns, "http://127.0.0.1:10256/healthz") },
	})
}
