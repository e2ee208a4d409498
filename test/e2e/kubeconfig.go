package e2e

import (
	"context"
	"net"
	"os"
	"slices"

	"github.com/contiv/contiv/test/lab"
	"sigs.k8s.io/yaml"
)

// Kubeconfig is the administrator's kubeconfig for use outside the cluster's namespaces, with a
// Forwarder.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// kubeconfig returns the path of the kubeconfig of a component.
func (c *Cluster) kubeconfig(who string) string { return c.pki(who + ".kubeconfig") }

// writeKubeconfig writes a kubeconfig for the holder of pki/<who>.crt.
func (c *Cluster) writeKubeconfig(path, who, server string) error {
	named := func(name, kind string, fields map[string]string) []any {
		return []any{map[string]any{"name": name, kind: fields}}
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"clusters":        named(c.opts.Name, "cluster", map[string]string{"server": server, "certificate-authority": c.pki("ca.crt")}),
		"users":           named(who, "user", map[string]string{"client-certificate": c.pki(who + ".crt"), "client-key": c.pki(who + ".key")}),
		"contexts":        named(c.opts.Name, "context", map[string]string{"cluster": c.opts.Name, "user": who}),
		"current-context": c.opts.Name,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// startForwarder makes the API server reachable outside the lab, on a loopback port.
func (c *Cluster) startForwarder(ctx context.Context) error {
	if c.opts.Forwarder == nil {
		return nil
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	if err := c.writeKubeconfig(c.Kubeconfig(), "admin", "https://"+address); err != nil {
		return err
	}
	c.progress("forwarding %s to the API server", address)
	return c.lab.StartGuest(ctx, lab.Guest{
		Role:    "forwarder",
		Command: slices.Concat(c.opts.Forwarder, []string{"--listen", address, "--netns", c.underlay, "--to", c.APIServer()}),
		Ready: func(ctx context.Context) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
}

// freeAddress returns an unused loopback address and port.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
