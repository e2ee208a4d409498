package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"

	"github.com/contiv/contiv/test/lab"
)

const (
	kubernetesEtcd  = "http://127.0.0.1:2379"
	kubernetesPeers = "http://127.0.0.1:2380"
)

func (c *Cluster) pki(file string) string { return c.path("pki", file) }

// writeIdentities writes the cluster's certificates, keys and kubeconfigs.
func (c *Cluster) writeIdentities() error {
	if err := os.Mkdir(c.path("pki"), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(c.path("pki"))
	if err != nil {
		return err
	}
	servers := []identity{{
		file: "apiserver", user: "kube-apiserver",
		names:     []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		addresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}}
	for _, n := range c.opts.IP.networks() {
		servers[0].addresses = append(servers[0].addresses, n.router.Addr().AsSlice(), n.apiService.AsSlice())
	}
	clients := []identity{
		{file: "admin", user: "admin", group: "system:masters"},
		{file: "apiserver-kubelet", user: "kube-apiserver-kubelet-client", group: "system:masters"},
		{file: "controller-manager", user: "system:kube-controller-manager"},
		{file: "scheduler", user: "system:kube-scheduler"},
		{file: "proxy", user: "system:kube-proxy"},
	}
	for _, n := range c.nodes {
		serving := identity{file: n.Name + "-serving", user: "system:node:" + n.Name, group: "system:nodes", names: []string{n.Name}}
		for _, address := range c.Addresses(n) {
			serving.addresses = append(serving.addresses, address.AsSlice())
		}
		servers = append(servers, serving)
		clients = append(clients, identity{file: n.Name, user: "system:node:" + n.Name, group: "system:nodes"})
	}
	for _, id := range servers {
		if err := ca.issue(id); err != nil {
			return err
		}
	}
	for _, id := range clients {
		if err := ca.issue(id); err != nil {
			return err
		}
		if err := c.writeKubeconfig(c.kubeconfig(id.file), id.file, c.apiServerURL()); err != nil {
			return err
		}
	}
	serviceAccounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return writeKey(c.pki("service-accounts.key"), serviceAccounts)
}

// startControlPlane starts etcd, API server, controller manager and scheduler on
// the lab's router.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	program := func(name string) string { return filepath.Join(c.opts.KubernetesDir, name) }
	guests := []lab.Guest{
		{Role: "kubernetes-etcd", Command: []string{
			filepath.Join(c.opts.BinDir, "contiv-etcd"),
			"--data-dir", c.path("etcd"),
			"--listen-client", kubernetesEtcd,
			"--listen-peer", kubernetesPeers,
			"--unsafe-no-fsync",
		}},
		{Role: "kube-apiserver", Ready: c.apiServerReady, Command: []string{
			program("kube-apiserver"),
			"--etcd-servers=" + kubernetesEtcd,
			"--bind-address=::",
			"--secure-port=443",
			"--advertise-address=" + c.opts.IP.networks()[0].router.Addr().String(),
			"--service-cluster-ip-range=" + c.joined(servicesOf),
			"--allow-privileged=true",
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction",
			"--client-ca-file=" + c.pki("ca.crt"),
			"--tls-cert-file=" + c.pki("apiserver.crt"),
			"--tls-private-key-file=" + c.pki("apiserver.key"),
			"--kubelet-certificate-authority=" + c.pki("ca.crt"),
			"--kubelet-client-certificate=" + c.pki("apiserver-kubelet.crt"),
			"--kubelet-client-key=" + c.pki("apiserver-kubelet.key"),
			"--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.pki("service-accounts.key"),
			"--service-account-signing-key-file=" + c.pki("service-accounts.key"),
			"--cert-dir=" + c.path("apiserver"),
		}},
		{Role: "kube-controller-manager", Command: []string{
			program("kube-controller-manager"),
			"--kubeconfig=" + c.kubeconfig("controller-manager"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + c.pki("service-accounts.key"),
			"--root-ca-file=" + c.pki("ca.crt"),
			"--cert-dir=" + c.path("controller-manager"),
		}},
		{Role: "kube-scheduler", Command: []string{
			program("kube-scheduler"),
			"--kubeconfig=" + c.kubeconfig("scheduler"),
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
			"--cert-dir=" + c.path("scheduler"),
		}},
	}
	for _, g := range guests {
		c.progress("starting %s", g.Role)
		g.Netns = c.underlay
		if err := c.lab.StartGuest(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) apiServerReady(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "get", "--raw=/readyz")
	return err
}
