package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/contiv/contiv/internal/kubernetes/kubeconfig"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewClient returns a client for the cluster of kubeconfig (files as in the environment variable
// KUBECONFIG) or, if empty, of the pod that we run in. It does not connect yet. name is the user
// agent. server, if not empty, is the address of the API server, "host:port" or a URL, which works
// before services do.
func NewClient(kubeconfig, server, name string) (*Client, error) {
	config, err := clientConfig(kubeconfig, server, name)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}

func serverURL(server string) (string, error) {
	address := strings.TrimSuffix(strings.TrimPrefix(server, "https://"), "/")
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" || strings.Contains(address, "/") {
		return "", fmt.Errorf("the address of the API server (--api-server), %q, is not like https://192.168.16.254:6443", server)
	}
	return "https://" + address, nil
}

// NewDynamicClient is NewClient for resources that a cluster may not have.
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

// Probe checks that the API server answers. It requests the readiness, which every account may. An
// API server that refuses is reachable, too.
func (c *Client) Probe(ctx context.Context) error {
	err := c.ready(ctx)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
		return nil
	}
	return err
}

func clientConfig(file, server, name string) (*rest.Config, error) {
	config, err := kubeconfig.Load(file)
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
