package kernel

import (
	"github.com/contiv/contiv/internal/vswitch"
)

var lacks = map[string]string{
	vswitch.ABFDescriptor: "forwarding by access lists: add routes to the destinations, or policy rules (`ip rule`) on the host",
	vswitch.IPScanNeighborDescriptor: "scans of neighbours: the Linux kernel probes the neighbours that are used by itself; " +
		"the sysctls net.ipv4.neigh.<device>.* say how",
	vswitch.DHCPProxyDescriptor: "a DHCP proxy: run a relay such as dhcrelay on the host",
	vswitch.TEIBDescriptor:      "endpoints of multipoint tunnels: make a VXLAN tunnel for each peer",
	vswitch.VRRPDescriptor:      "VRRP: this vswitch is the network stack of the host: run keepalived there",
	vswitch.SPDDescriptor:       ipsec, vswitch.SPDescriptor: ipsec, vswitch.SADescriptor: ipsec, vswitch.TunnelProtectionDescriptor: ipsec,
	vswitch.IPRedirectDescriptor: punt, vswitch.PuntToHostDescriptor: punt,
	vswitch.PuntExceptionDescriptor: "punting of dropped packets: count or log them with nftables on the host",
	vswitch.STNDescriptor:           "STN rules: this vswitch is the network stack of the host, which gets the packets for its addresses anyway: leave the rule out",
	vswitch.SourceRangesDescriptor:  "source ranges of guarded interfaces: the mappings of this vswitch look at sources: use their source_ranges",
	vswitch.DNSCacheDescriptor:      "a DNS cache: run one on the host, such as dnsmasq",
	vswitch.IPFIXDescriptor:         ipfix, vswitch.FlowProbeParamsDescriptor: ipfix, vswitch.FlowProbeFeatureDescriptor: ipfix,

	vswitch.RxModesDescriptor:     "rx_modes: the Linux kernel switches between interrupts and polling itself (NAPI): leave them out",
	vswitch.RxPlacementDescriptor: "rx_placements: the Linux kernel places its queues as irqbalance or /proc/irq says: leave them out",
}

const (
	ipsec = "IPsec: configure it on the host, for example with strongSwan: this vswitch is the host's network stack"
	ipfix = "IPFIX: run an exporter such as softflowd on the host, for the devices of this vswitch"
	punt  = "punting: this vswitch is the network stack of the host, and processes there receive the packets for its addresses: " +
		"let the process listen there, and remove the value"
)

// Lacks returns why the kernel vswitch does not configure the descriptor's values; "" if it does.
func (v *VSwitch) Lacks(descriptor string) string { return lacks[descriptor] }
