package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/config"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/metrics/endpoint"
	"github.com/contiv/contiv/netlink/conntrack"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/plugins/contivconf"
	serviceconfig "github.com/contiv/contiv/plugins/service/config"
	"github.com/contiv/contiv/store/etcd"
	"github.com/contiv/contiv/vswitch/vpp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// options of the agent in order of precedence: flag, environment, default. Options of the network
// are in contiv.conf and controller.conf.
type options struct {
	nodeName string
	logLevel slog.Level

	etcdConfig                string
	etcdEndpoints             []string
	apiServers                []string
	etcdCA, etcdCert, etcdKey string

	contivConfig, controllerConfig string
	serviceConfig                  string
	runDir, bolt, grpcBolt         string
	configDir                      string
	http, grpc                     []string
	metrics                        endpoint.Endpoint
	standalone                     bool
	listener                       listener.Options
	interfaceStats                 bool
	vswitch, vppSocket             string
	vppXDPDevices                  []string
	tracePackets                   bool               // of contiv.conf
	tracking                       conntrack.Settings // of service.conf
	probeInterval                  time.Duration
	historyDir                     string
	historySize                    uint // MiB
	historyAge                     time.Duration

	// Options of the event loop given as flags.
	controller *config.Overrides
}

// Defaults of the history.
const (
	defaultHistorySize = 64 // MiB
	defaultHistoryAge  = 7 * 24 * time.Hour
)

// aliases maps environment variables of the original product to flags.
var aliases = map[string]string{
	"node-name":         "MICROSERVICE_LABEL",
	"contiv-config":     "CONTIV_CONFIG",
	"controller-config": "CONTROLLER_CONFIG",
	"service-config":    "SERVICE_CONFIG",
	"etcd-config":       "ETCD_CONFIG",
	"etcd-endpoints":    "ETCD_ENDPOINTS",
	"api-server":        "API_SERVER",
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.nodeName, "node-name", "", "Kubernetes name of this node (default: the host name)")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "log level: DEBUG, INFO, WARN or ERROR")
	f.StringVar(&o.etcdConfig, "etcd-config", "", "etcd client configuration, YAML; other --etcd-... flags override it")
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "URLs of etcd (default http://127.0.0.1:32379)")
	f.StringVar(&o.etcdCA, "etcd-ca-file", "", "certificate authority of etcd's server certificate (PEM)")
	f.StringVar(&o.etcdCert, "etcd-cert-file", "", "client certificate for etcd (PEM)")
	f.StringVar(&o.etcdKey, "etcd-key-file", "", "private key of --etcd-cert-file (PEM)")
	f.StringSliceVar(&o.apiServers, "api-server", nil, "addresses at which components of the cluster reach the API server, HOST:PORT or URL, such as a load balancer's; no service may use them; comma-separated or repeatable (environment: API_SERVER)")
	f.StringVar(&o.serviceConfig, "service-config", "", "service configuration, YAML (default: /etc/contiv/service.conf if it exists)")
	f.StringVar(&o.contivConfig, "contiv-config", "", "network configuration, YAML (default: /etc/contiv/contiv.conf if it exists)")
	f.StringVar(&o.controllerConfig, "controller-config", "", "event loop configuration, YAML (default: /etc/contiv/controller.conf if it exists)")
	f.StringVar(&o.runDir, "run-dir", "/var/run/contiv", "directory of the sockets cni.sock, agent.sock and grpc.sock")
	f.StringVar(&o.bolt, "bolt", "/var/bolt/bolt.db", "database file with the mirror of etcd and with this node's pods and addresses")
	f.StringSliceVar(&o.http, "http", []string{"127.0.0.1:9999"}, "TCP addresses of the REST API, in addition to <run-dir>/agent.sock; empty: none")
	f.StringSliceVar(&o.grpc, "grpc", nil, "TCP addresses of the gRPC API, in addition to <run-dir>/grpc.sock, such as 0.0.0.0:9111; require --tls-client-ca-file, because clients can configure the node (default: none)")
	f.StringVar(&o.grpcBolt, "grpc-bolt", "", "database file with the configuration from gRPC clients and --config-dir (default: grpc.db next to --bolt)")
	f.StringVar(&o.configDir, "config-dir", "", "directory of YAML files with values to configure, applied when they change (default: none)")
	f.BoolVar(&o.standalone, "standalone", false, "run without Kubernetes, with configuration from gRPC clients, --config-dir and, if --etcd-endpoints is set, etcd")
	f.StringVar(&o.vswitch, "vswitch", kernelVSwitch, "data plane: kernel or vpp")
	f.StringVar(&o.vppSocket, "vpp-socket", vpp.DefaultSocket, "with --vswitch vpp: socket of VPP's binary API")
	f.StringSliceVar(&o.vppXDPDevices, "vpp-xdp-device", nil, "with --vswitch vpp: interface of the host that VPP uses with AF_XDP instead of AF_PACKET; comma-separated or repeatable")
	f.DurationVar(&o.probeInterval, "probe-interval", defaultProbeInterval, "interval of probes to other nodes over the overlay; 0: no probes")
	f.StringVar(&o.historyDir, "history-dir", "", "directory of recorded events, transactions and value changes, kept across restarts (default: history next to --bolt)")
	f.UintVar(&o.historySize, "history-size", defaultHistorySize, "maximum size of --history-dir in MiB; 0: no history")
	f.DurationVar(&o.historyAge, "history-age", defaultHistoryAge, "maximum age of records in --history-dir")
	o.listener.Flags(f)
	o.metrics.Flags(f)
	f.BoolVar(&o.interfaceStats, "interface-stats", true, "export the counters of each interface as metrics")
	o.controller = config.Flags(f, "controller", &controller.Config{})
}

// complete sets options that have no flag from the environment, and defaults that depend on the
// machine.
func (o *options) complete(f *pflag.FlagSet) error {
	var err error
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || err != nil {
			return
		}
		for _, name := range []string{"CONTIV_AGENT_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")), aliases[flag.Name]} {
			if value, ok := os.LookupEnv(name); ok && name != "" {
				if setErr := f.Set(flag.Name, value); setErr != nil {
					err = fmt.Errorf("environment variable %s=%q: %w", name, value, setErr)
				}
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if o.nodeName == "" {
		if o.nodeName, err = os.Hostname(); err != nil {
			return fmt.Errorf("read the host name: %w: set --node-name", err)
		}
	}
	if o.vswitch != kernelVSwitch && o.vswitch != vppVSwitch {
		return fmt.Errorf("--vswitch %q: use %s or %s", o.vswitch, kernelVSwitch, vppVSwitch)
	}
	if err := o.metrics.Check(); err != nil {
		return err
	}
	if o.probeInterval < 0 || o.probeInterval > 0 && o.probeInterval < time.Second {
		return fmt.Errorf("--probe-interval %v: use 1s or more, or 0 to probe no node", o.probeInterval)
	}
	if strings.Contains(o.nodeName, "/") {
		return fmt.Errorf("--node-name %q: a node name must not contain a slash", o.nodeName)
	}
	if o.runDir, err = filepath.Abs(o.runDir); err != nil {
		return err
	}
	if o.grpcBolt == "" {
		o.grpcBolt = filepath.Join(filepath.Dir(o.bolt), "grpc.db")
	}
	if o.historyDir == "" {
		o.historyDir = filepath.Join(filepath.Dir(o.bolt), "history")
	}
	if o.historyAge <= 0 {
		return fmt.Errorf("--history-age %v: use a duration above 0, or --history-size 0 for no history", o.historyAge)
	}
	o.contivConfig = defaultFile(o.contivConfig, "/etc/contiv/contiv.conf")
	o.controllerConfig = defaultFile(o.controllerConfig, "/etc/contiv/controller.conf")
	o.serviceConfig = defaultFile(o.serviceConfig, "/etc/contiv/service.conf")
	return nil
}

// defaultFile returns path, or the standard path if path is empty and that file exists.
func defaultFile(path, standard string) string {
	if path != "" {
		return path
	}
	if _, err := os.Stat(standard); err == nil {
		return standard
	}
	return ""
}

// openEtcd connects to etcd. It waits for missing credentials and returns an error for unusable
// ones.
func openEtcd(o options, log *slog.Logger) (*etcd.Store, error) {
	c, err := loadEtcdConfig(o)
	if err != nil {
		return nil, err
	}
	switch err := c.CheckFiles(); {
	case errors.Is(err, fs.ErrNotExist):
		log.Warn("Waiting for etcd credentials", "reason", err)
	case err != nil:
		return nil, err
	}
	c.Mark = nft.MarkUntranslated
	return etcd.New(c)
}

// loadEtcdConfig reads the etcd client configuration. Flags override the file.
func loadEtcdConfig(o options) (etcd.Config, error) {
	return etcd.LoadConfig(o.etcdConfig, o.etcdFlags(), etcd.LocalEndpoint)
}

func (o options) etcdFlags() etcd.Config {
	return etcd.Config{Endpoints: o.etcdEndpoints, CAFile: o.etcdCA, CertFile: o.etcdCert, KeyFile: o.etcdKey}
}

func checkConfigCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "check-config",
		Short: "Check flags, environment variables and configuration files",
		Long: `Check the configuration of an agent with the same flags and environment: contiv.conf, controller.conf,
service.conf, the etcd client configuration with its credentials, and the values in --config-dir. The
command makes no connections and changes nothing, so it cannot check whether the vswitch supports a value
or whether its dependencies exist.

With the kernel vswitch, contiv.conf is also compared with the interfaces of this machine: that the
interfaces of this node in nodeConfig exist, that the main interface is in the cluster's network, and that
mtuSize fits it. A mismatch is an error if nodeConfig configures interfaces for this machine's host name,
and otherwise a warning, because the file may be for another machine.

The exit code is 1 if the configuration has errors.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c.Flags()); err != nil {
				return err
			}
			remarks, err := o.check(c.Context(), hostLinks{})
			for _, remark := range remarks {
				fmt.Fprintln(c.OutOrStdout(), "warning:", remark)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "no errors found")
			return nil
		},
	}
}

// check returns all mistakes in the files that an agent with these options reads, and warnings.
// links are this machine's.
func (o options) check(ctx context.Context, links contivconf.HostLinks) (remarks []string, err error) {
	var errs []error
	if o.contivConfig != "" {
		errs = append(errs, contivconf.CheckFile(o.contivConfig))
	}
	if c, err := contivconf.LoadFile(o.contivConfig); err == nil && !o.standalone {
		host, _ := os.Hostname()
		found, err := c.CheckMachine(contivconf.Machine{NodeName: o.nodeName, Here: o.nodeName == host, OwnStack: o.vswitch == vppVSwitch, Links: links})
		read := cmp.Or(o.contivConfig, "contiv.conf (missing, defaults used)")
		for _, remark := range slices.Concat(c.Remarks(), found) {
			remarks = append(remarks, read+": "+remark)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", read, err))
		}
	}
	events := controller.DefaultConfig()
	if o.controllerConfig != "" {
		errs = append(errs, controller.CheckFile(o.controllerConfig, func(c *controller.Config) error { return o.controller.Apply(c) }))
	} else {
		errs = append(errs, o.controller.Apply(&events), events.Validate())
	}
	if o.serviceConfig != "" {
		errs = append(errs, serviceconfig.CheckFile(o.serviceConfig))
		if c, err := serviceconfig.LoadFile(o.serviceConfig); err == nil {
			for _, remark := range c.Remarks(o.http...) {
				remarks = append(remarks, o.serviceConfig+": "+remark)
			}
		}
	}
	switch {
	case o.etcdConfig != "":
		errs = append(errs, etcd.CheckFile(o.etcdConfig, o.etcdFlags(), etcd.LocalEndpoint))
	case !o.standalone || len(o.etcdEndpoints) > 0:
		c, err := loadEtcdConfig(o)
		errs = append(errs, cmp.Or(err, c.Check()))
	}
	if o.configDir != "" {
		if _, err := os.Stat(o.configDir); err != nil {
			errs = append(errs, fmt.Errorf("--config-dir: %w", err)) // an agent would wait for it
		}
		paths, err := filepath.Glob(filepath.Join(o.configDir, "*.yaml"))
		errs = append(errs, err)
		v, err := newValidator()
		if err != nil {
			errs = append(errs, fmt.Errorf("check the values in %s: %w: run the command as root", o.configDir, err))
		}
		defer v.Close()
		for _, path := range paths {
			empty, err := v.checkFile(ctx, path)
			if errs = append(errs, err); empty {
				remarks = append(remarks, path+" is empty: add a value or remove the file")
			}
		}
		errs = append(errs, ignoredFiles(o.configDir))
	}
	return remarks, errors.Join(errs...)
}
