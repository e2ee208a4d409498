// Package config reads service.conf, which configures the translation of Kubernetes services on
// this node.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
)

// Values of Services.
const (
	// Auto makes the vswitch translate services if it can and no other service proxy does.
	Auto = "auto"
	// KubeProxy leaves services to kube-proxy or a replacement.
	KubeProxy = "kube-proxy"
	// VSwitch makes the vswitch translate services. kube-proxy must not run.
	VSwitch = "vswitch"
)

// Values of ExternalIPs.
const (
	// AllowExternalIPs translates externalIPs of services.
	AllowExternalIPs = "allow"
	// WarnOfExternalIPs translates them and names their services.
	WarnOfExternalIPs = "warn"
	// DenyExternalIPs ignores them and names their services.
	DenyExternalIPs = "deny"
)

// MaxSessionTimeout is the longest session timeout, in seconds.
const MaxSessionTimeout = 1<<16 - 1

// The kernel's limits. Timeouts are 32-bit jiffies.
const (
	mostTracked    = 1<<31 - 1
	longestTracked = 30 * 24 * time.Hour
)

// Config is the content of service.conf.
type Config struct {
	// Services is Auto, KubeProxy or VSwitch.
	Services string `json:"services"`
	// NodePortAddresses are networks. Node ports are open on the node's addresses in them. An empty
	// list means all addresses known to Kubernetes and the vswitch.
	NodePortAddresses []string `json:"nodePortAddresses,omitempty"`
	// ExternalIPs is AllowExternalIPs, WarnOfExternalIPs or DenyExternalIPs. Kubernetes deprecates
	// externalIPs: whoever may create services can take over any address with them.
	ExternalIPs string `json:"externalIPs"`
	// HealthzBindAddress is the address for load balancers' checks of the node, or "".
	HealthzBindAddress string `json:"healthzBindAddress"`
	// EtcdService is the service of etcd, "<namespace>/<name>". Only this service may use the
	// address and port at which agents connect to etcd.
	EtcdService string `json:"etcdService"`
	// LocalEndpointWeight is the weight of a local endpoint relative to a remote one.
	LocalEndpointWeight uint8 `json:"serviceLocalEndpointWeight" limits:"1 to 255"`
	// ResetRemovedEndpoints resets TCP connections to removed endpoints: with the client's next
	// packet, or on VPP at once, if they have a socket on the node.
	ResetRemovedEndpoints bool `json:"resetRemovedEndpoints,omitempty"`

	// Idle timeouts of VPP's sessions, in seconds. 0 is VPP's default. The kernel uses Conntrack.
	TCPNATSessionTimeout   uint32 `json:"tcpNATSessionTimeout,omitempty" limits:"0 to 65535"`
	OtherNATSessionTimeout uint32 `json:"otherNATSessionTimeout,omitempty" limits:"0 to 65535"`

	Conntrack Conntrack `json:"conntrack,omitzero"`

	// Obsolete options without effect.
	CleanupIdleNATSessions      bool `json:"cleanupIdleNATSessions,omitempty"`
	DisableNATVirtualReassembly bool `json:"disableNATVirtualReassembly,omitempty"`
}

// Conntrack configures the kernel's connection tracking as kube-proxy does. 0 keeps the kernel's
// value.
type Conntrack struct {
	// MaxPerCore is the table size per core, Min the minimum size.
	MaxPerCore uint32 `json:"maxPerCore"`
	Min        uint32 `json:"min"`
	// Idle timeouts of established and half-closed TCP connections.
	TCPEstablishedTimeout config.Duration `json:"tcpEstablishedTimeout"`
	TCPCloseWaitTimeout   config.Duration `json:"tcpCloseWaitTimeout"`
	// TCPBeLiberal accepts segments outside the window.
	TCPBeLiberal bool `json:"tcpBeLiberal,omitempty"`
	// Idle timeouts of UDP flows. UDPStreamTimeout applies if both ends have sent.
	UDPTimeout       config.Duration `json:"udpTimeout,omitempty"`
	UDPStreamTimeout config.Duration `json:"udpStreamTimeout,omitempty"`
}

// Max returns the table size, or 0 to keep the kernel's.
func (c Conntrack) Max(cores int) uint64 {
	if c.MaxPerCore == 0 {
		return 0
	}
	return min(max(uint64(c.MaxPerCore)*uint64(cores), uint64(c.Min)), mostTracked)
}

// Default returns the configuration without a file.
func Default() Config {
	return Config{Services: Auto, ExternalIPs: WarnOfExternalIPs, LocalEndpointWeight: 1, HealthzBindAddress: ":10256", EtcdService: "kube-system/contiv-etcd", Conntrack: Conntrack{
		MaxPerCore: 32 << 10, Min: 128 << 10, TCPEstablishedTimeout: config.Duration(24 * time.Hour), TCPCloseWaitTimeout: config.Duration(time.Hour),
	}}
}

// LoadFile reads YAML or JSON. An empty path returns the defaults. Unknown keys are errors.
func LoadFile(path string) (Config, error) {
	c := Default()
	if path == "" {
		return c, nil
	}
	if err := config.LoadFile(path, &c); err != nil {
		return Config{}, err
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, nil
}

// Load is LoadFile for the content of a file.
func Load(data []byte) (Config, error) {
	c := Default()
	if err := config.Load(data, &c); err != nil {
		return Config{}, err
	}
	return c, c.check()
}

// CheckFile returns all errors of a file.
func CheckFile(path string) error {
	c := Default()
	return config.Examine(path, &c, func() error { return c.check() })
}

func (c Config) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("option "+format, args...)) }
	if c.Services != Auto && c.Services != KubeProxy && c.Services != VSwitch {
		wrong("services: %q is none of %q, %q for clusters with kube-proxy, and %q", c.Services, Auto, KubeProxy, VSwitch)
	}
	if c.ExternalIPs != AllowExternalIPs && c.ExternalIPs != WarnOfExternalIPs && c.ExternalIPs != DenyExternalIPs {
		wrong("externalIPs: %q is none of %q, %q and %q", c.ExternalIPs, AllowExternalIPs, WarnOfExternalIPs, DenyExternalIPs)
	}
	for _, text := range c.NodePortAddresses {
		if _, err := netip.ParsePrefix(text); err != nil {
			wrong("nodePortAddresses: %q is no network such as 192.168.16.0/24", text)
		}
	}
	if c.HealthzBindAddress != "" {
		host, port, err := net.SplitHostPort(c.HealthzBindAddress)
		if _, bad := netip.ParseAddr(host); err != nil || host != "" && bad != nil {
			wrong("healthzBindAddress: %q is no address with a port such as :10256, 192.168.16.1:10256 or [fd00::1]:10256; \"\" for none", c.HealthzBindAddress)
		}
		if n, bad := strconv.ParseUint(port, 10, 16); err == nil && (bad != nil || n == 0) {
			wrong("healthzBindAddress: %q is no port from 1 to 65535", port)
		}
	}
	if namespace, name, ok := strings.Cut(c.EtcdService, "/"); c.EtcdService != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
		wrong("etcdService: %q is not like kube-system/contiv-etcd; \"\" for an etcd that is no service", c.EtcdService)
	}
	for _, timeout := range []struct {
		option  string
		seconds uint32
	}{{"tcpNATSessionTimeout", c.TCPNATSessionTimeout}, {"otherNATSessionTimeout", c.OtherNATSessionTimeout}} {
		if timeout.seconds > MaxSessionTimeout {
			wrong("%s: %d seconds are more than VPP counts: use at most %d", timeout.option, timeout.seconds, MaxSessionTimeout)
		}
	}
	for _, timeout := range []struct {
		option string
		d      config.Duration
	}{
		{"tcpEstablishedTimeout", c.Conntrack.TCPEstablishedTimeout}, {"tcpCloseWaitTimeout", c.Conntrack.TCPCloseWaitTimeout},
		{"udpTimeout", c.Conntrack.UDPTimeout}, {"udpStreamTimeout", c.Conntrack.UDPStreamTimeout},
	} {
		if d := timeout.d.Std(); d != 0 && (d < time.Second || d > longestTracked) {
			wrong("conntrack.%s: %v is out of range: use 1s to %v, or 0 for the kernel's setting", timeout.option, d, longestTracked)
		}
	}
	if most := max(c.Conntrack.MaxPerCore, c.Conntrack.Min); most > mostTracked {
		wrong("conntrack.maxPerCore, conntrack.min: %d connections are more than the kernel counts: use at most %d", most, mostTracked)
	}
	if c.LocalEndpointWeight == 0 {
		wrong("serviceLocalEndpointWeight: 0 would leave endpoints on this node without connections: use 1 to 255")
	}
	return errors.Join(errs...)
}

// Remarks describes conflicts of a valid configuration with the agent's HTTP addresses.
func (c Config) Remarks(http ...string) (remarks []string) {
	host, port, err := net.SplitHostPort(c.HealthzBindAddress)
	for _, address := range http {
		agentHost, agentPort, badAddress := net.SplitHostPort(address)
		if err == nil && badAddress == nil && port == agentPort && (host == "" || agentHost == "" || host == agentHost) {
			remarks = append(remarks, fmt.Sprintf("option healthzBindAddress has port %s, where the agent serves HTTP (%s): use another one", port, address))
		}
	}
	return remarks
}

// OpenOn returns the sorted addresses on which node ports are open.
func (c Config) OpenOn(addresses []netip.Addr) (open []netip.Addr) {
	for _, a := range addresses {
		if len(c.NodePortAddresses) == 0 || slices.ContainsFunc(c.NodePortAddresses, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			return err == nil && p.Contains(a)
		}) {
			open = append(open, a)
		}
	}
	slices.SortFunc(open, netip.Addr.Compare)
	return slices.Compact(open)
}
