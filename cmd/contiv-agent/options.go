package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/metrics/endpoint"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/vswitch/vpp"
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
	f.StringVar(&o.vswitch, "vswitch", southbound.KernelVSwitch, "data plane: kernel or vpp")
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
	if o.vswitch != southbound.KernelVSwitch && o.vswitch != southbound.VPPVSwitch {
		return fmt.Errorf("--vswitch %q: use %s or %s", o.vswitch, southbound.KernelVSwitch, southbound.VPPVSwitch)
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

func loadConfig(o options) (contivConfig contivconf.Config, controllerConfig controller.Config, err error) {
	contivConfig, controllerConfig = contivconf.Default(), controller.DefaultConfig()
	if o.contivConfig != "" {
		if contivConfig, err = contivconf.LoadFile(o.contivConfig); err != nil {
			return contivConfig, controllerConfig, err
		}
	}
	if o.controllerConfig != "" {
		if controllerConfig, err = controller.LoadConfigFile(o.controllerConfig); err != nil {
			return contivConfig, controllerConfig, err
		}
	}
	if err = o.controller.Apply(&controllerConfig); err == nil {
		err = controllerConfig.Validate()
	}
	return contivConfig, controllerConfig, err
}
