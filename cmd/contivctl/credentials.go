package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/contiv/contiv/internal/ctl/kube"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/kubernetes/ksr/credentials"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// credentialsCommand returns the command that creates credentials for configuring nodes through
// etcd.
func credentialsCommand(out io.Writer) *cobra.Command {
	var (
		nodes    []string
		dir      string
		file     string
		cluster  string
		endpoint string
		patience time.Duration
	)
	c := &cobra.Command{
		Use:   "credentials NAME --node NODE... --dir DIR",
		Short: "Create credentials for configuring nodes through etcd",
		Long: "Create credentials for configuring the given nodes through etcd. Request a certificate from the cluster,\n" +
			"approve the request as an administrator, and write ca.pem, client.pem (certificate and key) and an\n" +
			"etcd.conf that refers to them. The credentials allow writing the configuration of these nodes and\n" +
			"reading the list of nodes, nothing else. Using a NAME again replaces its nodes.\n\n" +
			"To revoke the credentials:\n\n" +
			"  kubectl -n kube-system exec ds/contiv-ksr -- contiv-ksr revoke NAME --etcd-config=/etc/contiv/etcd.conf",
		Example: "  contivctl credentials ops --node node1 --node node2 --dir ops\n" +
			"  contivctl --etcd-config ops/etcd.conf config apply -f values.yaml --via etcd --node node1",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if err := access.CheckClient(name, access.Client{Nodes: nodes}); err != nil {
				return err
			}
			if dir == "" {
				return errors.New("--dir is missing: set a directory for the files")
			}
			config, err := kube.Config(file, cluster)
			if err != nil {
				return err
			}
			client, err := kube.NewClient(config)
			if err != nil {
				return kube.Unusable(file, fmt.Errorf("client of the API server: %w", err))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			if endpoint == "" {
				if endpoint, err = findEndpoint(ctx, client); err != nil {
					return err
				}
			}
			got, err := credentials.Request(ctx, signingRequests{client.Resource(kube.SigningRequests)}, access.ClientUser+name, nodes, func(ctx context.Context, request string) error {
				return approve(ctx, client, request)
			})
			if err != nil {
				return err
			}
			hint, err := got.WriteClient(dir, endpoint)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, "Credentials written:", hint)
			return nil
		},
	}
	f := c.Flags()
	f.StringArrayVar(&nodes, "node", nil, "node to allow; repeatable; \"*\": all nodes, including future ones")
	f.StringVar(&dir, "dir", "", "directory for the files; created if missing")
	f.StringVar(&endpoint, "endpoint", "", "URL of etcd to write to etcd.conf (default: port 32379 of the first node)")
	f.StringVar(&file, "kubeconfig", "", "kubeconfig file (default: environment KUBECONFIG, else ~/.kube/config)")
	f.StringVar(&cluster, "context", "", "context of the kubeconfig file (default: its current context)")
	f.DurationVar(&patience, "timeout", time.Minute, "maximum time to wait for the certificate")
	return c
}

// signingRequests accesses the cluster's CertificateSigningRequests.
type signingRequests struct{ of dynamic.ResourceInterface }

func (s signingRequests) Create(ctx context.Context, r *certificatesv1.CertificateSigningRequest, o metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	return kube.Create(ctx, s.of, r, o)
}

func (s signingRequests) Get(ctx context.Context, name string, _ metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error) {
	return kube.Get[certificatesv1.CertificateSigningRequest](ctx, s.of, name)
}

// approve approves a request; KSR then signs it.
func approve(ctx context.Context, client dynamic.Interface, name string) error {
	requests := client.Resource(kube.SigningRequests)
	r, err := kube.Get[certificatesv1.CertificateSigningRequest](ctx, requests, name)
	if err != nil {
		return fmt.Errorf("read CertificateSigningRequest %s: %w", name, err)
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Administrator", Message: "approved by contivctl credentials",
	})
	if _, err := kube.Update(ctx, requests, r, "approval"); err != nil {
		return fmt.Errorf("approve CertificateSigningRequest %s: %w", name, err)
	}
	return nil
}

// findEndpoint returns the address of etcd's port on a node.
func findEndpoint(ctx context.Context, client dynamic.Interface) (string, error) {
	nodes, err := kube.List[corev1.Node](ctx, client.Resource(kube.Nodes), "")
	if err != nil {
		return "", fmt.Errorf("list the nodes: %w", err)
	}
	for _, node := range nodes {
		for _, a := range node.Status.Addresses {
			if addr, err := kubeaddr.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
				return "https://" + net.JoinHostPort(addr.String(), "32379"), nil
			}
		}
	}
	return "", errors.New("no node has an address: set the URL of etcd with --endpoint")
}
