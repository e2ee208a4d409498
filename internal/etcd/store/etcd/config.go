package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
)

// Config configures a connection to etcd. The json tags are the keys of etcd.conf.
type Config struct {
	// Endpoints are "host:port" or URLs of the members. ${NAME} is replaced by an environment
	// variable, e.g. the address of the pod's node; IPv6 addresses in it are put in brackets.
	Endpoints []string `json:"endpoints"`
	// EndpointsFile is a file with the current "host:port" of each member, one per line. Each
	// connection reads it, and tries Endpoints only if no listed member answers. It may be missing.
	// With TLS, it needs ServerName.
	EndpointsFile string `json:"endpoints-file"`
	// DialTimeout limits one attempt to connect: two round trips, or four with TLS. Default 5 s.
	DialTimeout config.Duration `json:"dial-timeout"`
	// OperationTimeout limits calls without an earlier deadline, including connecting. Default 5 s.
	OperationTimeout config.Duration `json:"operation-timeout"`
	// KeepAliveTime is the idle time before a connection is probed. Default and minimum: 10 s, as
	// in gRPC.
	KeepAliveTime config.Duration `json:"keepalive-time"`
	// KeepAliveTimeout is the time after which a connection without an answer to the probe is
	// closed. Default 3 s.
	KeepAliveTimeout config.Duration `json:"keepalive-timeout"`

	// InsecureTransport disables TLS. It excludes the TLS files.
	InsecureTransport bool `json:"insecure-transport"`
	// InsecureSkipTLSVerify accepts any certificate of the server.
	InsecureSkipTLSVerify bool `json:"insecure-skip-tls-verify"`
	// CAFile, CertFile and KeyFile are PEM files: authorities of the server's certificate (default:
	// the system's), and the client's certificate and key. They are read for each connection, so
	// they may be renewed or created later.
	CAFile   string `json:"ca-file"`
	CertFile string `json:"cert-file"`
	KeyFile  string `json:"key-file"`
	// ServerName is the name in the server's certificate. Default: the host of the endpoint.
	ServerName string `json:"server-name"`

	// Credentials replaces the files.
	Credentials *Credentials `json:"-"`
	// Locate replaces EndpointsFile.
	Locate Locate `json:"-"`
	// Mark is the SO_MARK of sockets; 0: none. A failed connection is retried without it.
	Mark uint32 `json:"-"`

	Username string `json:"username"`
	Password string `json:"password"`
}

// LocalEndpoint is the address of the cluster's etcd on each node.
const LocalEndpoint = "http://127.0.0.1:32379"

// LoadConfig reads a file, unless its name is "", and overrides it with the non-empty endpoints,
// files, user and password of given, which are from flags. standard is the default endpoint. TLS is
// disabled if all endpoints are http.
func LoadConfig(file string, given Config, standard string) (c Config, err error) {
	if file != "" {
		if err := config.LoadFile(file, &c); err != nil {
			return c, fmt.Errorf("--etcd-config: %w", err)
		}
	}
	c.override(given, standard)
	return c, nil
}

// CheckFile returns all errors in a file and in given, as LoadConfig would use them.
func CheckFile(file string, given Config, standard string) error {
	var c Config
	return config.Examine(file, &c, func() error {
		c.override(given, standard)
		return c.Check()
	})
}

func (c *Config) override(given Config, standard string) {
	if len(given.Endpoints) > 0 {
		c.Endpoints = given.Endpoints
	}
	if len(c.Endpoints) == 0 && standard != "" {
		c.Endpoints = []string{standard}
	}
	c.CAFile, c.CertFile, c.KeyFile = cmp.Or(given.CAFile, c.CAFile), cmp.Or(given.CertFile, c.CertFile), cmp.Or(given.KeyFile, c.KeyFile)
	c.Username, c.Password = cmp.Or(given.Username, c.Username), cmp.Or(given.Password, c.Password)
	if c.wantsNoTLS() {
		c.InsecureTransport = true
	}
}

// setDefaults sets the default durations, and returns errors for invalid ones.
func (c *Config) setDefaults() error {
	var errs []error
	for _, d := range []struct {
		key           string
		field         *config.Duration
		standard, min time.Duration
	}{
		{"dial-timeout", &c.DialTimeout, 5 * time.Second, 1},
		{"operation-timeout", &c.OperationTimeout, 5 * time.Second, 1},
		{"keepalive-time", &c.KeepAliveTime, minKeepAliveTime, minKeepAliveTime},
		{"keepalive-timeout", &c.KeepAliveTimeout, 3 * time.Second, 1},
	} {
		if *d.field == 0 {
			*d.field = config.Duration(d.standard)
		}
		if d.field.Std() < d.min {
			errs = append(errs, fmt.Errorf("etcd: %s is %v: it must be at least %v", d.key, *d.field, d.min))
		}
	}
	return errors.Join(errs...)
}

// gRPC would silently raise a smaller value to minKeepAliveTime.
const minKeepAliveTime = 10 * time.Second

// expand replaces the environment variables in the endpoints.
func (c *Config) expand() error {
	expanded := make([]string, len(c.Endpoints))
	for i, endpoint := range c.Endpoints {
		var missing []string
		expanded[i] = os.Expand(endpoint, func(name string) string {
			value := os.Getenv(name)
			if value == "" {
				missing = append(missing, name)
			}
			if a, err := netip.ParseAddr(value); err == nil && a.Is6() {
				return "[" + value + "]"
			}
			return value
		})
		if len(missing) > 0 {
			return fmt.Errorf("etcd: endpoint %q: set the environment variable %s, or write an address", endpoint, strings.Join(missing, ", "))
		}
		if err := checkEndpoint(expanded[i]); err != nil {
			return err
		}
	}
	c.Endpoints = expanded
	return nil
}

// Check checks endpoints, durations and the files with credentials, without a connection. It skips
// endpoints with environment variables, which may be another machine's.
func (c Config) Check() error {
	errs := []error{c.setDefaults()}
	for _, endpoint := range c.Endpoints {
		if !strings.Contains(endpoint, "$") {
			errs = append(errs, checkEndpoint(endpoint))
		}
	}
	if i := slices.IndexFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https://") }); i >= 0 && c.InsecureTransport {
		errs = append(errs, fmt.Errorf("etcd: insecure-transport: true and the endpoint %s exclude each other: write http://, or remove insecure-transport", c.Endpoints[i]))
	}
	return errors.Join(append(errs, c.CheckFiles())...)
}

// Remarks returns warnings about a file without errors.
func Remarks(file string) (remarks []string) {
	var c Config
	if config.LoadFile(file, &c) == nil && len(c.Endpoints) == 0 {
		what := "it names no endpoints: agents use " + LocalEndpoint + " unless a flag says otherwise"
		if c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" {
			what += "; without https://, that endpoint excludes ca-file, cert-file and key-file"
		}
		remarks = append(remarks, what)
	}
	return remarks
}

// checkEndpoint refuses endpoints that the etcd client would retry forever.
func checkEndpoint(endpoint string) error {
	scheme, address, isURL := strings.Cut(endpoint, "://")
	if !isURL {
		address = endpoint
	}
	switch {
	case isURL && (scheme == "unix" || scheme == "unixs") || !isURL && strings.HasPrefix(endpoint, "unix:"):
		return nil
	case isURL && scheme != "http" && scheme != "https":
		return fmt.Errorf("etcd: endpoint %q: its scheme is not known: use http:// or https://", endpoint)
	}
	if host, port, err := net.SplitHostPort(strings.TrimSuffix(address, "/")); err != nil || host == "" || port == "" {
		return fmt.Errorf("etcd: endpoint %q: write it like http://192.168.16.1:32379, with host and port", endpoint)
	}
	return nil
}
