package target

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	pb "github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
)

const (
	// DefaultAgent is asked if no agents are configured.
	DefaultAgent = "unix:///var/run/contiv/agent.sock"
	// ConfigVariable is the environment variable of the configuration file if --config is not
	// given.
	ConfigVariable = "CONTIVCTL_CONFIG"
	agentPort      = "9999"
)

// Config is the configuration file.
type Config struct {
	// Agents by node name: "unix:///path/of/agent.sock" or "http://host:9999".
	Agents map[string]string `json:"agents"`
	// EtcdEndpoints are searched for further nodes, whose agents listen on port 9999 of the
	// InternalIP.
	EtcdEndpoints []string `json:"etcdEndpoints"`
	// CAFile, CertFile and KeyFile are PEM files for agents at https://HOST:PORT: the trusted
	// authorities (default: the host's), and the client's certificate and key.
	CAFile   string `json:"caFile"`
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	// EtcdConfig is a file in the format of the agent's etcd.conf. Its endpoints apply if
	// EtcdEndpoints is empty.
	EtcdConfig string `json:"etcdConfig"`
}

// Options select the agents.
type Options struct {
	File          string
	Agents        []string // NAME=URL
	EtcdEndpoints []string
	EtcdConfig    string
	// CAFile, CertFile and KeyFile as in Config.
	CAFile, CertFile, KeyFile string
	Node                      string
	Timeout                   time.Duration
	// Kubeconfig and Context select a cluster. By default, kubectl's cluster is used if nothing
	// else selects agents and this host has none.
	Kubeconfig, Context string
	// InCluster finds the agents of a cluster, or returns nil without a kubeconfig file.
	InCluster func(ctx context.Context, kubeconfig, context string) ([]*Agent, error)
	// Recorded agents replace all others.
	Recorded []*Agent
}

// Configuration returns the file's configuration, overridden by flags.
func (o Options) Configuration() (c Config, err error) {
	if o.File != "" {
		if err := config.LoadFile(o.File, &c); err != nil {
			return c, err
		}
	}
	if len(o.Agents) > 0 { // flags replace the file
		c = Config{Agents: make(map[string]string), CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile}
		for _, a := range o.Agents {
			name, address, ok := strings.Cut(a, "=")
			if !ok || name == "" {
				return c, text.Mistake(fmt.Errorf("--agent %q: use NAME=URL", a))
			}
			c.Agents[name] = address
		}
	}
	if len(o.EtcdEndpoints) > 0 {
		c.EtcdEndpoints = o.EtcdEndpoints
	}
	c.EtcdConfig = cmp.Or(o.EtcdConfig, c.EtcdConfig)
	c.CAFile, c.CertFile, c.KeyFile = cmp.Or(o.CAFile, c.CAFile), cmp.Or(o.CertFile, c.CertFile), cmp.Or(o.KeyFile, c.KeyFile)
	if (c.CertFile == "") != (c.KeyFile == "") {
		return c, text.Mistake(errors.New("--tls-cert-file and --tls-key-file require each other: set both"))
	}
	return c, nil
}

// scheme returns the scheme for agents discovered in etcd: https if a client certificate is
// configured.
func (c Config) scheme() string {
	if c.CertFile != "" {
		return "https"
	}
	return "http"
}

// TLS returns the client configuration for agents at https://HOST:PORT and for gRPC with TLS.
func (c Config) TLS() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca-file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca-file: %s contains no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile == "" {
		return t, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert-file and --tls-key-file: %w", err)
	}
	t.Certificates = []tls.Certificate{pair}
	return t, nil
}

// Etcd returns the configured connection to etcd. Its endpoints are empty if none are configured.
func (o Options) Etcd(c Config) (e etcd.Config, err error) {
	if c.EtcdConfig != "" {
		if err := config.LoadFile(c.EtcdConfig, &e); err != nil {
			return e, err
		}
	}
	if len(c.EtcdEndpoints) > 0 {
		e.Endpoints = c.EtcdEndpoints
	}
	e.CAFile, e.CertFile, e.KeyFile = cmp.Or(o.CAFile, e.CAFile), cmp.Or(o.CertFile, e.CertFile), cmp.Or(o.KeyFile, e.KeyFile)
	e.OperationTimeout = config.Duration(o.Timeout)
	if len(e.Endpoints) == 0 {
		return e, nil
	}
	return e, e.CheckFiles()
}

// All returns all agents, sorted by name.
func (o Options) All(ctx context.Context) ([]*Agent, error) {
	if o.Recorded != nil {
		return o.Recorded, nil
	}
	if o.Kubeconfig != "" || o.Context != "" {
		if len(o.Agents)+len(o.EtcdEndpoints) > 0 {
			return nil, text.Mistake(errors.New("--kubeconfig and --context select the agents: drop --agent and --etcd-endpoints"))
		}
		return o.InCluster(ctx, o.Kubeconfig, o.Context)
	}
	c, err := o.Configuration()
	if err != nil {
		return nil, err
	}
	reach, err := o.Etcd(c)
	if err != nil {
		return nil, err
	}
	if len(c.Agents) == 0 && len(reach.Endpoints) == 0 {
		if found, err := o.elsewhere(ctx); found != nil || err != nil {
			return found, err
		}
		return []*Agent{localAgent()}, nil
	}

	agents := make(map[string]*Agent)
	if len(reach.Endpoints) > 0 {
		found, err := discover(ctx, reach, c.scheme())
		if err != nil && !(errors.Is(err, errNoNodes) && len(c.Agents) > 0) { // without Kubernetes, etcd has no nodes
			return nil, err
		}
		for _, a := range found {
			agents[a.Name] = a
		}
	}
	for name, address := range c.Agents {
		a, err := New(name, address)
		if err != nil && len(o.Agents) > 0 {
			return nil, text.Mistake(err)
		} else if err != nil {
			return nil, err
		}
		agents[name] = a
	}
	for _, a := range agents {
		if !strings.HasPrefix(a.URL, "https:") {
			continue
		}
		t, err := c.TLS()
		if err != nil {
			return nil, err
		}
		a.useTLS(t)
	}
	var out []*Agent
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		out = append(out, agents[name])
	}
	return out, nil
}

func localAgent() *Agent {
	a, err := New("local", DefaultAgent)
	if err != nil {
		panic(err) // the URL is constant
	}
	a.absent = ": no agent runs on this host, and no kubeconfig leads to others: name one with --kubeconfig or KUBECONFIG, or an agent with --agent"
	return a
}

// CheckKubeconfig returns an error if the kubeconfig file of the flag or of KUBECONFIG does not
// exist. If KUBECONFIG lists several files, one must exist.
func CheckKubeconfig(flag string) error {
	by, named := "--kubeconfig", flag
	if named == "" {
		by, named = "KUBECONFIG", os.Getenv("KUBECONFIG")
	}
	var missing []error
	for _, file := range filepath.SplitList(named) {
		if file == "" {
			continue
		}
		_, err := os.Stat(file)
		if !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		missing = append(missing, err)
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return text.Mistake(fmt.Errorf("%s: %w", by, missing[0]))
	}
	return text.Mistake(fmt.Errorf("%s: none of its %d files exists: %w", by, len(missing), missing[0]))
}

// elsewhere returns the agents of kubectl's cluster, or nil if this host has an agent or kubectl
// has no cluster.
func (o Options) elsewhere(ctx context.Context) ([]*Agent, error) {
	if err := CheckKubeconfig(""); err != nil {
		return nil, err
	}
	if _, err := os.Stat(strings.TrimPrefix(DefaultAgent, "unix://")); !errors.Is(err, fs.ErrNotExist) || o.InCluster == nil {
		return nil, nil
	}
	return o.InCluster(ctx, "", "")
}

// Selected returns the agents of the nodes named by --node or the arguments, or all agents.
func (o Options) Selected(ctx context.Context, names []string) ([]*Agent, error) {
	if o.Node != "" {
		if i := slices.IndexFunc(names, func(name string) bool { return name != o.Node }); i >= 0 {
			return nil, text.Mistake(fmt.Errorf("--node %s contradicts the argument %s: drop one of them", o.Node, names[i]))
		}
		names = []string{o.Node}
	}
	agents, err := o.All(ctx)
	if err != nil || len(names) == 0 {
		return agents, err
	}
	var selected []*Agent
	for _, name := range names {
		i := slices.IndexFunc(agents, func(a *Agent) bool { return a.Name == name })
		if i < 0 {
			return nil, text.Hinted(fmt.Errorf("node %q is not known", name), name, Names(agents))
		}
		if !slices.Contains(selected, agents[i]) {
			selected = append(selected, agents[i])
		}
	}
	return selected, nil
}

// One returns the only selected agent, or an error.
func (o Options) One(ctx context.Context, args []string) (*Agent, error) {
	agents, err := o.Selected(ctx, args)
	if err != nil {
		return nil, err
	}
	if len(agents) > 1 {
		return nil, text.Mistake(fmt.Errorf("sequence numbers are specific to a node: select one with --node: %s", strings.Join(Names(agents), ", ")))
	}
	return agents[0], nil
}

func Names(agents []*Agent) (names []string) {
	for _, a := range agents {
		names = append(names, a.Name)
	}
	return names
}

var errNoNodes = errors.New("etcd has no nodes: check that contiv-ksr runs and that the cluster has Node objects")

func discover(ctx context.Context, reach etcd.Config, scheme string) ([]*Agent, error) {
	if err := Refused(ctx, reach.Endpoints); err != nil {
		return nil, fmt.Errorf("read the nodes from etcd: %w", err)
	}
	s, err := etcd.New(reach)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	done := Waiting(ctx, "etcd at "+strings.Join(reach.Endpoints, ","))
	kvs, _, err := s.List(ctx, models.KSRPrefix+"k8s/node/")
	done()
	if err != nil {
		return nil, fmt.Errorf("read the nodes from etcd at %s: %w", strings.Join(reach.Endpoints, ","), err)
	}
	var agents []*Agent
	for _, kv := range kvs {
		var n pb.Node
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(kv.Value, &n); err != nil {
			return nil, fmt.Errorf("value of %s is not a node: %w", kv.Key, err)
		}
		agents = append(agents, agentOfNode(&n, scheme))
	}
	if len(agents) == 0 {
		return nil, errNoNodes
	}
	return agents, nil
}

// CheckNode returns an error if the cluster does not have the node. Without Kubernetes, etcd has no
// nodes, and only names that look mistyped are rejected.
func (c Config) CheckNode(ctx context.Context, reach etcd.Config, name string) error {
	names := slices.Sorted(maps.Keys(c.Agents))
	agents, err := discover(ctx, reach, c.scheme())
	if err != nil && !errors.Is(err, errNoNodes) {
		return err
	}
	names = append(names, Names(agents)...)
	if slices.Contains(names, name) {
		return nil
	}
	if _, near := config.Nearest(name, names); err != nil && !near {
		return nil
	}
	return text.Hinted(fmt.Errorf("node %q is not known", name), name, names)
}

const refuseTimeout = time.Second

// Refused returns an error if no endpoint of etcd accepts connections. The etcd client would retry
// until the command times out.
func Refused(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, refuseTimeout)
	defer cancel()
	var errs []error
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			return nil // a unix socket, or without scheme
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
		if err == nil {
			conn.Close()
			return nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: connection refused: check that etcd is running", endpoint))
	}
	return errors.Join(errs...)
}

func agentOfNode(n *pb.Node, scheme string) *Agent {
	for _, a := range n.GetAddresses() {
		if a.GetType() == pb.NodeAddress_NodeInternalIP {
			base := url.URL{Scheme: scheme, Host: net.JoinHostPort(a.GetAddress(), agentPort)}
			agent, err := New(n.GetName(), base.String())
			if err == nil {
				return agent
			}
		}
	}
	return &Agent{Name: n.GetName(), unusable: errors.New("its Node object has no InternalIP: set the address of its agent with --agent or --config")}
}
