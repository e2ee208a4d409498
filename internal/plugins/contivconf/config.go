package contivconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/contiv/contiv/internal/lib/config"
)

// Transports between nodes.
const (
	VXLANTransport     = "vxlan"
	NoOverlayTransport = "nooverlay"
	SRv6Transport      = "srv6"
)

// Config is the content of contiv.conf.
type Config struct {
	InterfaceConfig
	RoutingConfig
	IPNeighborScanConfig

	// StealFirstNIC and StealInterface make VPP use a NIC of the host through contiv-stn, at
	// STNSocketFile. STNVersion has no effect, because VPP's plugin stn passes packets to the host.
	StealFirstNIC  bool   `json:"stealFirstNIC,omitempty"`
	StealInterface string `json:"stealInterface,omitempty"`
	STNSocketFile  string `json:"stnSocketFile,omitempty"`
	STNVersion     uint8  `json:"stnVersion,omitempty"`

	// NatExternalTraffic masquerades traffic of pods that leaves the cluster.
	NatExternalTraffic bool `json:"natExternalTraffic"`
	// NatExternalTrafficIPv6 is the same for IPv6.
	NatExternalTrafficIPv6       bool `json:"natExternalTrafficIPv6,omitempty"`
	EnablePacketTrace            bool `json:"enablePacketTrace,omitempty"`
	CRDNodeConfigurationDisabled bool `json:"crdNodeConfigurationDisabled"`

	IPAMConfig IPAMConfig   `json:"ipamConfig"`
	NodeConfig []NodeConfig `json:"nodeConfig,omitempty"`
}

// InterfaceConfig applies to all interfaces of the vswitch.
type InterfaceConfig struct {
	// MTUSize is the MTU of pods. 0: the main interface's MTU minus the overhead of the overlay.
	MTUSize uint32 `json:"mtuSize,omitempty"`
	// UseTAPInterfaces connects pods and the host by TAPs (true) or VETH pairs (false). nil:
	// depends on the vswitch.
	UseTAPInterfaces           *bool  `json:"useTAPInterfaces,omitempty"`
	TAPInterfaceVersion        uint8  `json:"tapInterfaceVersion"`
	TAPv2RxRingSize            uint16 `json:"tapv2RxRingSize,omitempty"`
	TAPv2TxRingSize            uint16 `json:"tapv2TxRingSize,omitempty"`
	Vmxnet3RxRingSize          uint16 `json:"vmxnet3RxRingSize,omitempty"`
	Vmxnet3TxRingSize          uint16 `json:"vmxnet3TxRingSize,omitempty"`
	InterfaceRxMode            string `json:"interfaceRxMode,omitempty"`
	TCPChecksumOffloadDisabled bool   `json:"tcpChecksumOffloadDisabled"`
	EnableGSO                  bool   `json:"enableGSO,omitempty"`
	// PodConnectionLimit is the maximal number of tracked connections opened by a pod. 0:
	// unlimited.
	PodConnectionLimit uint32 `json:"podConnectionLimit"`
	// PodAllowedSources lists networks, separated by commas, whose addresses a pod's annotation may
	// add as sources. Empty: pods only send from their own addresses.
	PodAllowedSources string `json:"podAllowedSources,omitempty"`
}

// RoutingConfig configures the connections of nodes and pods.
type RoutingConfig struct {
	MainVRFID                         uint32 `json:"mainVRFID"`
	PodVRFID                          uint32 `json:"podVRFID"`
	NodeToNodeTransport               string `json:"nodeToNodeTransport"`
	UseSRv6ForServices                bool   `json:"useSRv6ForServices,omitempty"`
	UseSRv6ForServiceFunctionChaining bool   `json:"useSRv6ForServiceFunctionChaining,omitempty"`
	UseDX6ForSrv6NodetoNodeTransport  bool   `json:"useDX6ForSrv6NodetoNodeTransport,omitempty"`
	RouteServiceCIDRToVPP             bool   `json:"routeServiceCIDRToVPP,omitempty"`
}

// IPNeighborScanConfig configures the expiry of neighbours. Times are in minutes.
type IPNeighborScanConfig struct {
	ScanIPNeighbors          bool  `json:"scanIPNeighbors"`
	IPNeighborScanInterval   uint8 `json:"ipNeighborScanInterval,omitempty"`
	IPNeighborStaleThreshold uint8 `json:"ipNeighborStaleThreshold,omitempty"`
}

// IPAMConfig is the address plan as written by the user. Subnets is its parsed form. In a
// dual-stack cluster, options that end in CIDR and DefaultGateway hold one value per IP version,
// separated by a comma.
type IPAMConfig struct {
	UseExternalIPAM bool `json:"useExternalIPAM,omitempty"`
	// ContivCIDR, if set, is divided into all subnets except ServiceCIDR.
	ContivCIDR                    string `json:"contivCIDR,omitempty"`
	ServiceCIDR                   string `json:"serviceCIDR,omitempty"`
	NodeInterconnectDHCP          bool   `json:"nodeInterconnectDHCP,omitempty"`
	PodSubnetCIDR                 string `json:"podSubnetCIDR,omitempty"`
	PodSubnetOneNodePrefixLen     uint8  `json:"podSubnetOneNodePrefixLen,omitempty"`
	VPPHostSubnetCIDR             string `json:"vppHostSubnetCIDR,omitempty"`
	VPPHostSubnetOneNodePrefixLen uint8  `json:"vppHostSubnetOneNodePrefixLen,omitempty"`
	// For the IPv6 networks of a dual-stack cluster.
	PodSubnetOneNodePrefixLenIPv6     uint8      `json:"podSubnetOneNodePrefixLenIPv6,omitempty"`
	VPPHostSubnetOneNodePrefixLenIPv6 uint8      `json:"vppHostSubnetOneNodePrefixLenIPv6,omitempty"`
	NodeInterconnectCIDR              string     `json:"nodeInterconnectCIDR,omitempty"`
	VxlanCIDR                         string     `json:"vxlanCIDR,omitempty"`
	DefaultGateway                    string     `json:"defaultGateway,omitempty"`
	SRv6                              SRv6Config `json:"srv6,omitzero"`
}

// SRv6Config holds the prefixes of segment identifiers.
type SRv6Config struct {
	ServicePolicyBSIDSubnetCIDR            string `json:"servicePolicyBSIDSubnetCIDR,omitempty"`
	ServicePodLocalSIDSubnetCIDR           string `json:"servicePodLocalSIDSubnetCIDR,omitempty"`
	ServiceHostLocalSIDSubnetCIDR          string `json:"serviceHostLocalSIDSubnetCIDR,omitempty"`
	ServiceNodeLocalSIDSubnetCIDR          string `json:"serviceNodeLocalSIDSubnetCIDR,omitempty"`
	NodeToNodePodLocalSIDSubnetCIDR        string `json:"nodeToNodePodLocalSIDSubnetCIDR,omitempty"`
	NodeToNodeHostLocalSIDSubnetCIDR       string `json:"nodeToNodeHostLocalSIDSubnetCIDR,omitempty"`
	NodeToNodePodPolicySIDSubnetCIDR       string `json:"nodeToNodePodPolicySIDSubnetCIDR,omitempty"`
	NodeToNodeHostPolicySIDSubnetCIDR      string `json:"nodeToNodeHostPolicySIDSubnetCIDR,omitempty"`
	SFCPolicyBSIDSubnetCIDR                string `json:"sfcPolicyBSIDSubnetCIDR,omitempty"`
	SFCServiceFunctionSIDSubnetCIDR        string `json:"sfcServiceFunctionSIDSubnetCIDR,omitempty"`
	SFCEndLocalSIDSubnetCIDR               string `json:"sfcEndLocalSIDSubnetCIDR,omitempty"`
	SFCIDLengthUsedInSidForServiceFunction uint8  `json:"sfcIDLengthUsedInSidForServiceFunction,omitempty"`
}

// NodeConfig is the section of one node.
type NodeConfig struct {
	NodeName           string            `json:"nodeName"`
	MainVPPInterface   InterfaceWithIP   `json:"mainVPPInterface"`
	OtherVPPInterfaces []InterfaceWithIP `json:"otherVPPInterfaces,omitempty"`
	StealInterface     string            `json:"stealInterface,omitempty"`
	Gateway            string            `json:"gateway,omitempty"`
	NatExternalTraffic bool              `json:"natExternalTraffic,omitempty"`
}

// InterfaceWithIP is an interface. IP (with prefix length; one per IP version, separated by a
// comma) overrides UseDHCP.
type InterfaceWithIP struct {
	InterfaceName string `json:"interfaceName,omitempty"`
	IP            string `json:"ip,omitempty"`
	UseDHCP       bool   `json:"useDHCP,omitempty"`
}

// Default returns the configuration of an empty contiv.conf.
func Default() Config {
	return Config{
		InterfaceConfig: InterfaceConfig{
			TAPInterfaceVersion: 2, TCPChecksumOffloadDisabled: true, PodConnectionLimit: 16384,
		},
		RoutingConfig:                RoutingConfig{MainVRFID: 0, PodVRFID: 1, NodeToNodeTransport: VXLANTransport},
		IPNeighborScanConfig:         IPNeighborScanConfig{ScanIPNeighbors: true, IPNeighborScanInterval: 1, IPNeighborStaleThreshold: 4},
		STNSocketFile:                "/var/run/contiv/stn.sock",
		NatExternalTraffic:           true,
		CRDNodeConfigurationDisabled: true,
		IPAMConfig: IPAMConfig{
			ServiceCIDR:                   "10.96.0.0/12",
			PodSubnetCIDR:                 "10.1.0.0/16",
			PodSubnetOneNodePrefixLen:     24,
			VPPHostSubnetCIDR:             "172.30.0.0/16",
			VPPHostSubnetOneNodePrefixLen: 24,
			PodSubnetOneNodePrefixLenIPv6: 64, VPPHostSubnetOneNodePrefixLenIPv6: 64,
			VxlanCIDR: "192.168.30.0/24",
			SRv6: SRv6Config{
				ServicePolicyBSIDSubnetCIDR:            "8fff::/16",
				ServicePodLocalSIDSubnetCIDR:           "9300::/16",
				ServiceHostLocalSIDSubnetCIDR:          "9300::/16",
				ServiceNodeLocalSIDSubnetCIDR:          "9000::/16",
				NodeToNodePodLocalSIDSubnetCIDR:        "9501::/16",
				NodeToNodeHostLocalSIDSubnetCIDR:       "9500::/16",
				NodeToNodePodPolicySIDSubnetCIDR:       "8501::/16",
				NodeToNodeHostPolicySIDSubnetCIDR:      "8500::/16",
				SFCPolicyBSIDSubnetCIDR:                "8eee::/16",
				SFCServiceFunctionSIDSubnetCIDR:        "9600::/16",
				SFCEndLocalSIDSubnetCIDR:               "9310::/16",
				SFCIDLengthUsedInSidForServiceFunction: 16,
			},
		},
	}
}

// Load decodes contiv.conf, YAML or JSON, over the defaults. Unknown keys are errors. New checks
// the values. Load is for tests; agents use LoadFile.
func Load(data []byte) (Config, error) {
	c := Default()
	if err := config.Load(data, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// LoadFile is Load for a file, or returns the defaults for "".
func LoadFile(path string) (Config, error) {
	c := Default()
	if path == "" {
		return c, nil
	}
	if err := config.LoadFile(path, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// CheckFile returns all mistakes in a file.
func CheckFile(path string) error {
	c := Default()
	return config.Examine(path, &c, c.Check)
}

// Check returns all errors in the values that the agents of the named nodes would find.
func (c *Config) Check() error {
	subnets, err := parseSubnets(&c.IPAMConfig, c.NodeToNodeTransport)
	if err == nil {
		_, err = subnets.parseAllowedSources(c.PodAllowedSources)
	}
	errs := []error{c.check(), err}
	for _, section := range c.NodeConfig {
		section, err := c.forNode(section.NodeName)
		if err != nil {
			errs = append(errs, err)
			break // the other nodes report the same
		}
		static, err := resolveStatic(c, &section)
		if err == nil {
			err = checkAddresses(&static, &subnets)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", section.NodeName, err))
		}
	}
	return errors.Join(errs...)
}

// Remarks describes unusual but valid values and their interpretation.
func (c *Config) Remarks() (remarks []string) {
	for _, option := range append([]struct{ name, value string }{
		{"ipamConfig.contivCIDR", c.IPAMConfig.ContivCIDR},
		{"ipamConfig.podSubnetCIDR", c.IPAMConfig.PodSubnetCIDR},
		{"ipamConfig.vppHostSubnetCIDR", c.IPAMConfig.VPPHostSubnetCIDR},
		{"ipamConfig.vxlanCIDR", c.IPAMConfig.VxlanCIDR},
		{"ipamConfig.nodeInterconnectCIDR", c.IPAMConfig.NodeInterconnectCIDR},
		{"ipamConfig.serviceCIDR", c.IPAMConfig.ServiceCIDR},
		{"podAllowedSources", c.PodAllowedSources},
	}, c.IPAMConfig.SRv6.networks()...) {
		for _, text := range split(option.value) {
			if network, err := netip.ParsePrefix(text); err == nil && network != network.Masked() {
				remarks = append(remarks, fmt.Sprintf("option %s has %v, an address in the network %v, which is used: use the network", option.name, network, network.Masked()))
			}
		}
	}
	for _, node := range c.NodeConfig {
		for _, i := range append([]InterfaceWithIP{node.MainVPPInterface}, node.OtherVPPInterfaces...) {
			if i.UseDHCP && i.IP != "" {
				remarks = append(remarks, fmt.Sprintf("nodeConfig of %s: interface %s has ip, so useDHCP: true has no effect: remove one of them", node.NodeName, i.InterfaceName))
			}
		}
	}
	return remarks
}

// check validates options that do not depend on others. It rejects options without an
// implementation, because ignoring them would build another network than requested.
func (c *Config) check() error {
	var unsupported []error
	for _, option := range []struct {
		set        bool
		name, hint string
	}{
		{c.NodeToNodeTransport == SRv6Transport, "nodeToNodeTransport: srv6", "use vxlan or nooverlay"},
		{c.UseSRv6ForServiceFunctionChaining, "useSRv6ForServiceFunctionChaining", "set it to false"},
		{c.UseDX6ForSrv6NodetoNodeTransport, "useDX6ForSrv6NodetoNodeTransport", "set it to false"},
	} {
		if option.set {
			unsupported = append(unsupported, fmt.Errorf("option %s is not supported by this version: %s", option.name, option.hint))
		}
	}
	if len(unsupported) > 0 {
		return errors.Join(unsupported...)
	}
	return errors.Join(c.InterfaceConfig.check(), c.RoutingConfig.check(), c.IPNeighborScanConfig.check(), c.IPAMConfig.SRv6.check(),
		wrong(c.STNVersion > 2, "stnVersion", c.STNVersion, "use 1 or 2"))
}

// wrong returns an error with advice, or nil if the value is valid.
func wrong(isWrong bool, option string, value any, hint string) error {
	if !isWrong {
		return nil
	}
	if text, ok := value.(string); ok {
		value = strconv.Quote(text)
	}
	return fmt.Errorf("option %s is %v: %s", option, value, hint)
}

func (c *InterfaceConfig) check() error {
	const ring, vmxnet3Ring = "use a power of two, or 0 for the vswitch's default", "use a multiple of 64 from 64 to 4096, or 0 for the vswitch's default"
	powerOfTwo := func(n uint16) bool { return n&(n-1) == 0 }
	vmxnet3 := func(n uint16) bool { return n%64 == 0 && n <= 4096 }
	return errors.Join(
		wrong(!slices.Contains([]string{"", "polling", "interrupt", "adaptive"}, c.InterfaceRxMode), "interfaceRxMode", c.InterfaceRxMode,
			"use polling, interrupt or adaptive, or remove it"),
		wrong(c.MTUSize != 0 && (c.MTUSize < 576 || c.MTUSize > 9216), "mtuSize", c.MTUSize, "use a value from 576 to 9216, or 0 for the main interface's"),
		wrong(c.TAPInterfaceVersion != 2, "tapInterfaceVersion", c.TAPInterfaceVersion, "use 2, or remove it"),
		wrong(c.PodConnectionLimit > 1<<24, "podConnectionLimit", c.PodConnectionLimit, "use at most 16777216, or 0 for no limit"),
		wrong(!powerOfTwo(c.TAPv2RxRingSize), "tapv2RxRingSize", c.TAPv2RxRingSize, ring),
		wrong(!powerOfTwo(c.TAPv2TxRingSize), "tapv2TxRingSize", c.TAPv2TxRingSize, ring),
		wrong(!vmxnet3(c.Vmxnet3RxRingSize), "vmxnet3RxRingSize", c.Vmxnet3RxRingSize, vmxnet3Ring),
		wrong(!vmxnet3(c.Vmxnet3TxRingSize), "vmxnet3TxRingSize", c.Vmxnet3TxRingSize, vmxnet3Ring))
}

func (c *RoutingConfig) check() error {
	transport := c.NodeToNodeTransport
	if c.MainVRFID == c.PodVRFID {
		return fmt.Errorf("options mainVRFID and podVRFID are both %d: use another VRF for pods", c.MainVRFID)
	}
	return wrong(transport != VXLANTransport && transport != NoOverlayTransport, "nodeToNodeTransport", transport, "use vxlan or nooverlay")
}

func (c *IPNeighborScanConfig) check() error {
	if !c.ScanIPNeighbors {
		return nil
	}
	const hint = "use at least 1 minute, or set scanIPNeighbors to false"
	return errors.Join(
		wrong(c.IPNeighborScanInterval == 0, "ipNeighborScanInterval", c.IPNeighborScanInterval, hint),
		wrong(c.IPNeighborStaleThreshold == 0, "ipNeighborStaleThreshold", c.IPNeighborStaleThreshold, hint))
}

func (c *SRv6Config) networks() []struct{ name, value string } {
	return []struct{ name, value string }{
		{"ipamConfig.srv6.servicePolicyBSIDSubnetCIDR", c.ServicePolicyBSIDSubnetCIDR},
		{"ipamConfig.srv6.servicePodLocalSIDSubnetCIDR", c.ServicePodLocalSIDSubnetCIDR},
		{"ipamConfig.srv6.serviceHostLocalSIDSubnetCIDR", c.ServiceHostLocalSIDSubnetCIDR},
		{"ipamConfig.srv6.serviceNodeLocalSIDSubnetCIDR", c.ServiceNodeLocalSIDSubnetCIDR},
		{"ipamConfig.srv6.nodeToNodePodLocalSIDSubnetCIDR", c.NodeToNodePodLocalSIDSubnetCIDR},
		{"ipamConfig.srv6.nodeToNodeHostLocalSIDSubnetCIDR", c.NodeToNodeHostLocalSIDSubnetCIDR},
		{"ipamConfig.srv6.nodeToNodePodPolicySIDSubnetCIDR", c.NodeToNodePodPolicySIDSubnetCIDR},
		{"ipamConfig.srv6.nodeToNodeHostPolicySIDSubnetCIDR", c.NodeToNodeHostPolicySIDSubnetCIDR},
		{"ipamConfig.srv6.sfcPolicyBSIDSubnetCIDR", c.SFCPolicyBSIDSubnetCIDR},
		{"ipamConfig.srv6.sfcServiceFunctionSIDSubnetCIDR", c.SFCServiceFunctionSIDSubnetCIDR},
		{"ipamConfig.srv6.sfcEndLocalSIDSubnetCIDR", c.SFCEndLocalSIDSubnetCIDR},
	}
}

func (c *SRv6Config) check() error {
	var errs []error
	for _, option := range c.networks() {
		network, err := netip.ParsePrefix(option.value)
		errs = append(errs, wrong(err != nil || !network.Addr().Is6(), option.name, option.value, "use an IPv6 network such as 9300::/16"))
	}
	length := c.SFCIDLengthUsedInSidForServiceFunction
	errs = append(errs, wrong(length == 0 || length > 64, "ipamConfig.srv6.sfcIDLengthUsedInSidForServiceFunction", length, "use 1 to 64 bits"))
	return errors.Join(errs...)
}
