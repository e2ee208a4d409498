package e2e

import (
	"bytes"
	"context"
	_ "embed"
	"strings"
	"text/template"
)

// clusterDomain is the domain of services.
const clusterDomain = "cluster.local"

//go:embed dns.yaml
var dnsText string

// dnsManifest is CoreDNS as installed by kubeadm: pods that reach the API server by its service,
// behind the service in each pod's resolv.conf.
var dnsManifest = template.Must(template.New("dns").Parse(dnsText))

// HasDNS reports whether the cluster has DNS: with kube-proxy, pods of VPP nodes reach no service.
func (c *Cluster) HasDNS() bool { return c.opts.WithoutProxy || !c.hasVPP() }

func (c *Cluster) applyDNS(ctx context.Context) error {
	if !c.HasDNS() {
		return nil
	}
	c.progress("applying CoreDNS")
	var manifest bytes.Buffer
	err := dnsManifest.Execute(&manifest, map[string]any{
		"Addresses": strings.Split(c.joined(dnsOf), ","), "Domain": clusterDomain, "Image": dnsImage, "Replicas": len(c.nodes),
	})
	if err == nil {
		_, err = c.KubectlInput(ctx, &manifest, "apply", "-f", "-")
	}
	return err
}

func (c *Cluster) awaitDNS(ctx context.Context) error {
	if !c.HasDNS() {
		return nil
	}
	c.progress("awaiting CoreDNS")
	_, err := c.Kubectl(ctx, "rollout", "status", "-n", "kube-system", "deployment/coredns", "--timeout=1m")
	return err
}
