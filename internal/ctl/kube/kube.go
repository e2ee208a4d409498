// Package kube reaches agents with only a kubeconfig. It runs a program in their pods, through the
// API server, that connects its standard streams to a socket of the agent:
//
//	contivctl ──exec──> API server ──> kubelet ──> contivctl relay SOCKET ──> agent.sock, grpc.sock
//
// The user needs the rights to list pods and to create pods/exec.
//
// Client also serves commands that need other objects of the cluster.
package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	namespace = "kube-system"
	label     = "app in (contiv-agent,contiv-vpp)"
	container = "agent"
	runDir    = "/var/run/contiv/"
)

// Agents returns the agents of a kubeconfig file's cluster, or of a context in it, named after
// their nodes. Without a file, it uses kubectl's: KUBECONFIG, then ~/.kube/config. It returns nil
// if none exists. Requests to an agent that is not running return an error with the reason.
func Agents(ctx context.Context, kubeconfig, cluster string) ([]*target.Agent, error) {
	config, err := Config(kubeconfig, cluster)
	switch {
	case errors.Is(err, ErrNone) && kubeconfig == "" && cluster == "":
		return nil, nil
	case err != nil:
		return nil, err
	}
	client, err := NewClient(config)
	if err != nil {
		return nil, Unusable(kubeconfig, err)
	}
	done := target.Waiting(ctx, "the API server at "+config.Host)
	var pods corev1.PodList
	err = client.get(ctx, &pods, client.rest.Get().AbsPath("/api/v1").Namespace(namespace).Resource("pods").Param("labelSelector", label))
	done()
	if err != nil {
		return nil, fmt.Errorf("list the agents in namespace %s of the cluster at %s: %w", namespace, config.Host, err)
	}
	var agents []*target.Agent
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			continue
		}
		where := "pod " + namespace + "/" + pod.Name
		if pod.Status.Phase != corev1.PodRunning {
			agents = append(agents, target.Unusable(pod.Spec.NodeName, where, fmt.Errorf("%s is %s: see kubectl -n %s describe pod %s", where, pod.Status.Phase, namespace, pod.Name)))
			continue
		}
		agents = append(agents, target.Dialed(pod.Spec.NodeName, where, func(_ context.Context, socket string) (net.Conn, error) {
			return dial(config, client.exec(namespace, pod.Name, container, "contivctl", "relay", runDir+socket))
		}))
	}
	slices.SortStableFunc(agents, func(a, b *target.Agent) int { return strings.Compare(a.Name, b.Name) })
	if len(agents) == 0 {
		return nil, fmt.Errorf("no agent found at %s: no pod in namespace %s has the label %s: check that Contiv is installed", config.Host, namespace, label)
	}
	return agents, nil
}

// ErrNone is returned by Config if no kubeconfig exists.
var ErrNone = errors.New("no kubeconfig: set an administrator's kubeconfig with --kubeconfig or KUBECONFIG, or copy it to ~/.kube/config")

// Config returns the connection to the API server of a kubeconfig file, or of a context in it.
// Without a file, it uses kubectl's (KUBECONFIG, then ~/.kube/config) and, in a pod, the pod's own
// cluster. A given file must exist and name a cluster.
func Config(kubeconfig, cluster string) (*rest.Config, error) {
	if err := target.CheckKubeconfig(kubeconfig); err != nil {
		return nil, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if rules.ExplicitPath = kubeconfig; len(filepath.SplitList(kubeconfig)) > 1 { // as in KUBECONFIG
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: cluster})
	if raw, err := loader.RawConfig(); err == nil && cluster != "" && len(raw.Contexts) > 0 && raw.Contexts[cluster] == nil {
		return nil, text.Hinted(fmt.Errorf("--context: context %q does not exist", cluster), cluster, slices.Sorted(maps.Keys(raw.Contexts)))
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) && kubeconfig == "" && os.Getenv("KUBECONFIG") == "":
		return nil, ErrNone
	case clientcmd.IsEmptyConfig(err) && kubeconfig == "":
		return nil, text.Mistake(fmt.Errorf("KUBECONFIG: %s selects no cluster: fix or unset it", os.Getenv("KUBECONFIG")))
	case err != nil:
		return nil, Unusable(kubeconfig, err)
	}
	config.UserAgent = "contivctl"
	return config, nil
}

// Unusable explains why no client can be created from a kubeconfig file.
func Unusable(kubeconfig string, err error) error {
	if kubeconfig != "" && len(filepath.SplitList(kubeconfig)) == 1 {
		var cause *fs.PathError
		if _, loading := clientcmd.LoadFromFile(kubeconfig); errors.As(loading, &cause) {
			err = cause
		} else if loading != nil {
			err = fmt.Errorf("%s is not a kubeconfig file, such as the output of `kubectl config view --raw`", kubeconfig)
		}
	}
	by := "--kubeconfig"
	if kubeconfig == "" {
		by = "kubeconfig"
	}
	return fmt.Errorf("%s: %w", by, err)
}

func dial(config *rest.Config, command *url.URL) (net.Conn, error) {
	executor, err := newExecutor(config, command)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	near, far := net.Pipe()
	c := &conn{Conn: near, cancel: cancel}
	go func() {
		var complaint bytes.Buffer
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: far, Stdout: far, Stderr: &complaint})
		c.end(err, strings.TrimSpace(complaint.String()))
		far.Close()
	}()
	return c, nil
}

// newExecutor uses WebSocket, or SPDY with API servers before Kubernetes 1.31.
func newExecutor(config *rest.Config, command *url.URL) (remotecommand.Executor, error) {
	socket, err := remotecommand.NewWebSocketExecutor(config, "GET", command.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", command)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

type conn struct {
	net.Conn
	cancel context.CancelFunc

	mu  sync.Mutex
	why error
}

func (c *conn) end(err error, complaint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case complaint != "":
		c.why = errors.New(complaint)
	case err != nil:
		c.why = fmt.Errorf("run contivctl relay in the agent's container: %w", err)
	}
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.why != nil {
			err = c.why
		}
	}
	return n, err
}

// Close ends the program.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.cancel()
	return err
}
