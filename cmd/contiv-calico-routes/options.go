package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/vswitch/vpp"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// options in order of precedence: flag, argument, environment, file, default.
type options struct {
	configFile   string
	hostname     string
	treeText     string
	uplink       string
	uplinkType   string
	addressTexts []string
	configure    bool
	ttl          time.Duration

	datastore, kubeconfig string
	apiServer             string

	etcdConfig                string
	etcdEndpoints             []string
	etcdCA, etcdCert, etcdKey string
	etcdUser, etcdPassword    string

	vswitch, vppSocket string
	agent              string
	agentTLS           agentTLS
	once, dryRun       bool
	onceTimeout        time.Duration
	centre, central    bool
	runDir             string
	http               []string
	listener           listener.Options
	logLevel           slog.Level

	tree      datastore.Tree
	addresses []netip.Prefix
}

// Values of --datastore.
const (
	etcdDatastore       = "etcd"
	kubernetesDatastore = "kubernetes"
)

// Values of --vswitch.
const (
	kernelVSwitch = "kernel"
	vppVSwitch    = "vpp"
)

func (o *options) register(f *pflag.FlagSet) {
	hostname, _ := os.Hostname()
	f.StringVar(&o.configFile, "config", "", "YAML file that maps names of flags, without leading dashes, to values")
	f.StringVar(&o.hostname, "hostname", hostname, "name of this node in Calico's data (default: the host name)")
	f.Lookup("hostname").DefValue = ""
	f.StringVar(&o.treeText, "tree", datastore.DefaultTree, "prefix of Calico's blocks in etcd")
	f.StringVar(&o.uplink, "uplink", "", "interface to the other nodes: its name or its index in \"ip link\", or in \"vppctl show interface\" with --vswitch vpp and --uplink-type DPDK")
	f.StringVar(&o.uplinkType, "uplink-type", "DPDK", "how the vswitch uses the uplink: DPDK (VPP drives the NIC; with the kernel, any interface) or AF_PACKET (VPP uses an interface of the host)")
	f.StringSliceVar(&o.addressTexts, "address", nil, "address of the uplink with prefix length, such as 192.168.1.10/24; at most one per IP version (default: the uplink's addresses)")
	f.BoolVar(&o.configure, "configure-uplink", true, "enable the uplink and assign the addresses of --address to it; if false, it must already have them")
	f.DurationVar(&o.ttl, "ttl", 30*time.Second, "time for which other nodes keep routes to a failed node; whole seconds, at least 5s")
	f.StringVar(&o.datastore, "datastore", etcdDatastore, "datastore of Calico: etcd or kubernetes")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "with --datastore kubernetes: kubeconfig file (default: the pod's service account)")
	f.StringVar(&o.apiServer, "api-server", "", "with --datastore kubernetes: address of the API server, if Services of the cluster need these routes (default: from --kubeconfig or the cluster)")
	f.StringVar(&o.etcdConfig, "etcd-config", "", "etcd client configuration, YAML; other --etcd-... flags override it")
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "URLs of etcd (default http://localhost:4000)")
	f.StringVar(&o.etcdCA, "etcd-ca-file", "", "certificate authority of etcd's server certificate (PEM)")
	f.StringVar(&o.etcdCert, "etcd-cert-file", "", "client certificate for etcd (PEM)")
	f.StringVar(&o.etcdKey, "etcd-key-file", "", "private key of --etcd-cert-file (PEM)")
	f.StringVar(&o.etcdUser, "etcd-user", "", "user of etcd (default: none)")
	f.StringVar(&o.etcdPassword, "etcd-password", "", "password of --etcd-user; prefer the environment or --etcd-config, because all users of the machine can see flags")
	f.StringVar(&o.vswitch, "vswitch", kernelVSwitch, "data plane: kernel or vpp")
	f.StringVar(&o.vppSocket, "vpp-socket", vpp.DefaultSocket, "with --vswitch vpp: socket of VPP's binary API")
	f.StringVar(&o.agent, "agent", "", "gRPC address of a contiv-agent that programs the routes instead of --vswitch, unix:///PATH or HOST:PORT")
	f.StringVar(&o.agentTLS.ca, "agent-ca-file", "", "certificate authority of the agent's certificate (PEM); enables TLS to --agent")
	f.StringVar(&o.agentTLS.cert, "agent-cert-file", "", "client certificate for --agent (PEM)")
	f.StringVar(&o.agentTLS.key, "agent-key-file", "", "private key of --agent-cert-file (PEM)")
	f.BoolVar(&o.central, "central", false, "use the routes that an instance with --centre calculated for this node; if no such instance runs, calculate them here")
	f.BoolVar(&o.centre, "centre", false, "calculate the routes of all nodes and write them to etcd, without an uplink and without programming routes; of several such instances, an elected one is active")
	f.BoolVar(&o.once, "once", false, "print the routes that this node should have, without changing anything, and exit")
	f.DurationVar(&o.onceTimeout, "once-timeout", 30*time.Second, "maximum time for which --once waits for the datastore")
	f.BoolVar(&o.dryRun, "dry-run", false, "keep running, but print changes of the vswitch and etcd instead of making them")
	f.StringVar(&o.runDir, "run-dir", "/var/run/contiv", "directory of the socket agent.sock for contivctl, which cannot be shared with a contiv-agent")
	f.StringSliceVar(&o.http, "http", []string{"127.0.0.1:9999"}, "TCP addresses of the REST API, in addition to <run-dir>/agent.sock; empty: none")
	o.listener.Flags(f)
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "log level: DEBUG, INFO, WARN or ERROR")
}

const environment = "CONTIV_CALICO_ROUTES_"

// complete fills in the options that have no flag from the arguments, the environment and the file,
// and checks all.
func (o *options) complete(f *pflag.FlagSet, args []string) error {
	if err := positional(f, args); err != nil {
		return err
	}
	if err := fromEnvironment(f); err != nil {
		return err
	}
	if o.configFile != "" {
		if err := fromFile(f, o.configFile); err != nil {
			return err
		}
	}
	return o.check()
}

func set(f *pflag.FlagSet, name, value string) error {
	if flag := f.Lookup(name); flag != nil && flag.Changed {
		return nil
	}
	return f.Set(name, value)
}

func positional(f *pflag.FlagSet, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) < 4 {
		return fmt.Errorf("%d arguments: use TREE, UPLINK, ADDRESS and LENGTH, or flags instead", len(args))
	}
	if _, err := strconv.ParseUint(args[3], 10, 8); err != nil {
		return fmt.Errorf("prefix length %q is not a number: use 24 for 192.168.1.10/24", args[3])
	}
	values := map[string]string{"tree": args[0], "uplink": args[1], "address": args[2] + "/" + args[3]}
	endpoint := []string{"http", "localhost", "4000"}
	copy(endpoint, args[4:])
	values["etcd-endpoints"] = endpoint[0] + "://" + net.JoinHostPort(endpoint[1], endpoint[2])
	if len(args) > 7 {
		values["etcd-user"] = args[7]
	}
	if len(args) > 8 {
		values["etcd-password"] = args[8]
	}
	var errs []error
	for name, value := range values {
		if len(args) == 4 && name == "etcd-endpoints" {
			continue // the default, which the environment and the file may replace
		}
		errs = append(errs, set(f, name, value))
	}
	return errors.Join(errs...)
}

func fromEnvironment(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := environment + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok && !flag.Changed && err == nil {
			if setErr := f.Set(flag.Name, value); setErr != nil {
				err = fmt.Errorf("environment variable %s: %w", name, setErr)
			}
		}
	})
	return err
}

func fromFile(f *pflag.FlagSet, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("--config %s: %w", path, err)
	}
	var errs []error
	for name, value := range values {
		text := fmt.Sprint(value)
		if list, ok := value.([]any); ok {
			words := make([]string, len(list))
			for i, word := range list {
				words[i] = fmt.Sprint(word)
			}
			text = strings.Join(words, ",")
		}
		if f.Lookup(name) == nil || name == "config" {
			errs = append(errs, fmt.Errorf("--config %s: unknown flag %s: see --help", path, name))
		} else if err := set(f, name, text); err != nil {
			errs = append(errs, fmt.Errorf("--config %s: %s: %w", path, name, err))
		}
	}
	return errors.Join(errs...)
}

func (o *options) check() (err error) {
	if o.tree, err = datastore.ParseTree(o.treeText); err != nil {
		return err
	}
	if o.hostname == "" || strings.Contains(o.hostname, "/") {
		return fmt.Errorf("--hostname %q: use the name of this node in Calico", o.hostname)
	}
	for _, text := range o.addressTexts {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return fmt.Errorf("--address %q is not like 192.168.1.10/24", text)
		}
		if _, err := datastore.ParsePeer(p.Addr().String()); err != nil {
			return fmt.Errorf("--address %s: %w", text, err)
		}
		if slices.ContainsFunc(o.addresses, func(other netip.Prefix) bool { return other.Addr().Is4() == p.Addr().Is4() }) {
			return fmt.Errorf("--address %s: second address of its IP version; use at most one of each", text)
		}
		o.addresses = append(o.addresses, p)
	}
	switch {
	case o.vswitch != kernelVSwitch && o.vswitch != vppVSwitch:
		return fmt.Errorf("--vswitch %q: use %s or %s", o.vswitch, kernelVSwitch, vppVSwitch)
	case !slices.Contains([]string{"DPDK", "AF_PACKET"}, o.uplinkType):
		return fmt.Errorf("--uplink-type %q: use DPDK or AF_PACKET", o.uplinkType)
	case o.ttl < 5*time.Second || o.ttl%time.Second != 0:
		return fmt.Errorf("--ttl %s: use whole seconds, 5 at least", o.ttl)
	case o.datastore != etcdDatastore && o.datastore != kubernetesDatastore:
		return fmt.Errorf("--datastore %q: use %s or %s", o.datastore, etcdDatastore, kubernetesDatastore)
	case o.datastore == kubernetesDatastore && (o.central || o.centre):
		return errors.New("--central and --centre require --datastore etcd")
	case o.centre && (o.once || o.dryRun || o.central):
		return errors.New("--centre excludes --central, --once and --dry-run")
	case o.once || o.dryRun || o.centre:
		return nil
	case o.uplink == "":
		return errors.New("no uplink: set --uplink, or the arguments TREE UPLINK ADDRESS LENGTH")
	case len(o.addresses) == 0:
		return o.useUplinkAddresses()
	}
	return nil
}

// useUplinkAddresses uses the uplink's first address of each family.
func (o *options) useUplinkAddresses() error {
	const instead = "set --address, or the arguments TREE UPLINK ADDRESS LENGTH"
	if o.uplinkIsVPPs() {
		return fmt.Errorf("no address is set, and the addresses of --uplink %s cannot be read from VPP: %s", o.uplink, instead)
	}
	name, err := o.hostUplink()
	if err != nil {
		return err
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("no address is set, and the addresses of --uplink %s cannot be read: %w; %s", name, err, instead)
	}
	has, err := link.Addrs()
	if err != nil {
		return fmt.Errorf("read the addresses of --uplink %s: %w", name, err)
	}
	for _, a := range has {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || !p.Addr().IsGlobalUnicast() ||
			slices.ContainsFunc(o.addresses, func(other netip.Prefix) bool { return other.Addr().Is4() == p.Addr().Is4() }) {
			continue
		}
		o.addresses = append(o.addresses, p)
	}
	if len(o.addresses) == 0 {
		return fmt.Errorf("no address is set, and --uplink %s has none: %s", name, instead)
	}
	return nil
}

// uplinkIsVPPs reports whether the uplink is a network card that VPP drives itself.
func (o *options) uplinkIsVPPs() bool {
	return o.vswitch == vppVSwitch && o.interfaceType() == vpp_interfaces.Interface_DPDK && o.agent == ""
}

// uplinkName returns the name of the uplink, which may be given by index. It asks VPP for the name
// of VPP's own card, and waits for VPP until ctx ends.
func (o *options) uplinkName(ctx context.Context, log *slog.Logger) (string, error) {
	index, err := strconv.ParseUint(o.uplink, 10, 32)
	if err != nil || !o.uplinkIsVPPs() {
		return o.hostUplink()
	}
	log.Info("Waiting for VPP to return the name of the uplink", "index", index, "socket", o.vppSocket)
	v, err := vpp.New(ctx, vpp.Options{Socket: o.vppSocket, Logger: log})
	if err != nil {
		return "", err
	}
	defer v.Close()
	name, err := v.NIC(ctx, uint32(index))
	if err != nil {
		return "", fmt.Errorf("--uplink %d: %w", index, err)
	}
	return name, nil
}

// hostUplink returns the name of an uplink known to the host or to an agent.
func (o *options) hostUplink() (string, error) {
	index, err := strconv.Atoi(o.uplink)
	if err != nil {
		return o.uplink, nil
	}
	if o.agent != "" {
		return "", fmt.Errorf("--uplink %d: with --agent, use the name of the interface at the agent (see contivctl interfaces)", index)
	}
	link, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", fmt.Errorf("--uplink %d: no interface has this index (see `ip link`): %w", index, err)
	}
	return link.Name, nil
}

func (o *options) interfaceType() vpp_interfaces.Interface_Type {
	return vpp_interfaces.Interface_Type(vpp_interfaces.Interface_Type_value[o.uplinkType])
}

// loadEtcdConfig reads the etcd client configuration.
func (o *options) loadEtcdConfig() (etcd.Config, error) {
	given := etcd.Config{Endpoints: o.etcdEndpoints, CAFile: o.etcdCA, CertFile: o.etcdCert, KeyFile: o.etcdKey, Username: o.etcdUser, Password: o.etcdPassword}
	c, err := etcd.LoadConfig(o.etcdConfig, given, "http://localhost:4000")
	if err != nil {
		return c, err
	}
	return c, c.CheckFiles()
}
