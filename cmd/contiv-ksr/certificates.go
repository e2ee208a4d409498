package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/kubernetes/ksr/credentials"
	"github.com/contiv/contiv/internal/kubernetes/ksr/location"
	"github.com/contiv/contiv/internal/kubernetes/ksr/signer"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
)

func namespace() string { return cmp.Or(os.Getenv("POD_NAMESPACE"), "kube-system") }

// apiServer holds the options for the connection to the API server.
type apiServer struct{ kubeconfig, server string }

func (a *apiServer) register(f *pflag.FlagSet) {
	f.StringVar(&a.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig file (default: the pod's service account; environment: KUBECONFIG)")
	f.StringVar(&a.server, "api-server", os.Getenv("API_SERVER"), "HOST:PORT or URL of the API server, if Services of the cluster need Contiv (default: from --kubeconfig or the cluster; environment: API_SERVER)")
}

// client returns a client whose user agent contains the name.
func (a *apiServer) client(name string) (*kubeapi.Client, error) {
	client, err := kubeapi.NewClient(a.kubeconfig, a.server, name)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return client, nil
}

// dynamic returns a client for resources that the cluster may lack.
func (a *apiServer) dynamic(name string) (dynamic.Interface, error) {
	client, err := kubeapi.NewDynamicClient(a.kubeconfig, a.server, name)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return client, nil
}

// issuer signs certificates.
type issuer struct {
	signer *signer.Signer
	// etcd is connected with a certificate of the signer's authority.
	etcd atomic.Pointer[etcd.Store]
}

// newIssuer gives the etcd configuration a certificate of etcd's root.
func (o options) newIssuer(etcdConfig *etcd.Config, log *slog.Logger) (*issuer, error) {
	if o.source != sourceKubernetes {
		return nil, fmt.Errorf("--credentials-dir requires --source %s, because certificates are requested and stored there", sourceKubernetes)
	}
	client, err := o.api.client("contiv-ksr")
	if err != nil {
		return nil, err
	}
	i := &issuer{}
	i.signer = signer.New(signer.Options{
		Client: client, Namespace: o.namespace, Logger: log,
		Clients: func(ctx context.Context, name string, c access.Client) error {
			return i.etcd.Load().Put(ctx, access.ClientPrefix+name, c.Marshal())
		},
	})
	etcdConfig.CAFile, etcdConfig.CertFile, etcdConfig.KeyFile = "", "", ""
	etcdConfig.Credentials = i.signer.Credentials()
	if etcdConfig.EndpointsFile != "" {
		etcdConfig.Locate = func(ctx context.Context) ([]string, error) { return location.Find(ctx, client, o.namespace) }
	}
	return i, nil
}

// revokeCommand revokes permissions given by "contivctl credentials".
func revokeCommand() *cobra.Command {
	return rootCommand(&cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke credentials for configuring nodes through etcd",
		Long:  "Revoke the credentials that \"contivctl credentials\" created for NAME. Run it in a KSR pod:\n\n  kubectl -n kube-system exec ds/contiv-ksr -- contiv-ksr revoke NAME --etcd-config=/etc/contiv/etcd.conf",
		Args:  cobra.ExactArgs(1),
	}, func(ctx context.Context, store *etcd.Store, args []string) error {
		key := access.ClientPrefix + args[0]
		if _, exists, err := store.Get(ctx, key); err != nil || !exists {
			return cmp.Or(err, fmt.Errorf("no credentials of %s: see the names below %s in etcd", args[0], access.ClientPrefix))
		}
		if err := store.Delete(ctx, key); err != nil {
			return err
		}
		fmt.Printf("Revoked the credentials of %s\n", args[0])
		return nil
	})
}

// forgetUsersCommand makes etcd's data usable for a version without certificates.
func forgetUsersCommand() *cobra.Command {
	return rootCommand(&cobra.Command{
		Use:   "forget-users",
		Short: "Disable etcd's authentication before a downgrade",
		Long: "Disable etcd's authentication before a downgrade to a version without certificates. Every certificate\n" +
			"then has full access until \"contiv-etcd --users\" starts again, so install the older version at once.\n" +
			"Run it in a KSR pod:\n\n  kubectl -n kube-system exec ds/contiv-ksr -- contiv-ksr forget-users --etcd-config=/etc/contiv/etcd.conf",
		Args: cobra.NoArgs,
	}, func(ctx context.Context, store *etcd.Store, _ []string) error {
		if _, err := store.Client().AuthDisable(ctx); err != nil {
			return fmt.Errorf("disable etcd's authentication: %w", err)
		}
		fmt.Println("Disabled etcd's authentication until contiv-etcd --users starts again")
		return nil
	})
}

// rootCommand completes a command that acts as etcd's root. It runs in a KSR pod, which may read
// the certificate authority.
func rootCommand(c *cobra.Command, do func(ctx context.Context, store *etcd.Store, args []string) error) *cobra.Command {
	o := options{source: sourceKubernetes}
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
		defer cancel()
		etcdConfig, err := o.loadEtcdConfig()
		if err != nil {
			return err
		}
		i, err := o.newIssuer(&etcdConfig, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			return err
		}
		if err := i.signer.AwaitAuthority(ctx); err != nil {
			return err
		}
		store, err := etcd.New(etcdConfig)
		if err != nil {
			return err
		}
		defer store.Close()
		return do(ctx, store, args)
	}
	f := c.Flags()
	f.StringVar(&o.etcdConfig, "etcd-config", os.Getenv("ETCD_CONFIG"), "etcd client configuration, YAML (environment: ETCD_CONFIG)")
	o.api.register(f)
	f.StringVar(&o.namespace, "namespace", namespace(), "namespace of Contiv's pods and Secrets (environment: POD_NAMESPACE)")
	return c
}

func credentialsCommand() *cobra.Command {
	var node, dir, etcdConfig, inNamespace string
	var api apiServer
	c := &cobra.Command{
		Use:   "credentials",
		Short: "Write and renew the etcd credentials of a node",
		Long: "Request a certificate for the node from the cluster, write ca.pem and client.pem (certificate and key)\n" +
			"to a directory, and renew them before they expire. If the endpoints-file of --etcd-config is in that\n" +
			"directory, also write the addresses of etcd's pods to it. The command runs in the agent's pod.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if node == "" {
				return errors.New("--node-name is missing: set the name of the node")
			}
			var conf etcd.Config
			if etcdConfig != "" {
				if err := config.LoadFile(etcdConfig, &conf); err != nil {
					return fmt.Errorf("--etcd-config: %w", err)
				}
				if conf.CertFile == "" || filepath.Dir(conf.CertFile) != filepath.Clean(dir) {
					fmt.Printf("contiv-ksr: nothing to do: %s refers to no credentials in %s\n", etcdConfig, dir)
					<-ctx.Done()
					return nil
				}
			}
			client, err := api.client("contiv-credentials")
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error {
				return credentials.Keep(ctx, credentials.Options{
					Requests: client.Requests, Node: node, Dir: dir, Logger: log,
					Kept: func(due time.Time) {
						fmt.Printf("contiv-ksr: credentials of %s in %s are valid; next renewal at %s\n", node, dir, due.Format(time.RFC3339))
					},
				})
			})
			if conf.EndpointsFile != "" && filepath.Dir(conf.EndpointsFile) == filepath.Clean(dir) {
				g.Go(func() error { return location.Keep(ctx, client, inNamespace, conf.EndpointsFile, log) })
			}
			return g.Wait()
		},
	}
	f := c.Flags()
	f.StringVar(&node, "node-name", os.Getenv("NODE_NAME"), "name of the node (environment: NODE_NAME)")
	f.StringVar(&dir, "dir", "/run/contiv-etcd", "directory of the files")
	f.StringVar(&etcdConfig, "etcd-config", os.Getenv("ETCD_CONFIG"), "etcd client configuration, YAML; if it refers to credentials outside --dir, the command does nothing (environment: ETCD_CONFIG)")
	f.StringVar(&inNamespace, "namespace", namespace(), "namespace of etcd's pods (environment: POD_NAMESPACE)")
	api.register(f)
	return c
}
