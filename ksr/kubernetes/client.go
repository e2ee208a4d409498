package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NewClient returns a client for the cluster of a kubeconfig file (or several, separated as in the
// environment variable KUBECONFIG), or, if none is given, of the pod that we run in. It does not
// connect yet. name identifies us to the API server. server, if not empty, is the address of the API
// server, "host:port" or a URL; services need not work then.
func NewClient(kubeconfig, server, name string) (kubernetes.Interface, error) {
	config, err := clientConfig(kubeconfig, server, name)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

// serverURL returns the URL of an API server.
func serverURL(server string) (string, error) {
	address := strings.TrimSuffix(strings.TrimPrefix(server, "https://"), "/")
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" || strings.Contains(address, "/") {
		return "", fmt.Errorf("the address of the API server (--api-server), %q, is not like https://192.168.16.254:6443", server)
	}
	return "https://" + address, nil
}

// NewDynamicClient returns a client, as NewClient does, for resources that a cluster may not have.
func NewDynamicClient(kubeconfig, server, name string) (dynamic.Interface, error) {
	config, err := clientConfig(kubeconfig, server, name)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

// NewProbe returns a function for Options.Probe. Every account may ask for readiness, and an API
// server that refuses to answer is reachable all the same.
func NewProbe(client kubernetes.Interface) func(context.Context) error {
	api := client.Discovery().RESTClient()
	return func(ctx context.Context) error {
		err := api.Get().AbsPath("/readyz").Do(ctx).Error()
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
			return nil
		}
		return err
	}
}

func clientConfig(kubeconfig, server, name string) (*rest.Config, error) {
	config, err := configOf(kubeconfig)
	if err != nil {
		return nil, err
	}
	if server != "" {
		if config.Host, err = serverURL(server); err != nil {
			return nil, err
		}
	}
	config.UserAgent = name
	return config, nil
}

func configOf(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is no pod of a cluster: name a kubeconfig file")
		}
		if err != nil {
			return nil, fmt.Errorf("service account of the pod: %w", err)
		}
		return config, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	if files := filepath.SplitList(kubeconfig); len(files) > 1 {
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: files}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}
