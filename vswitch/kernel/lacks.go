package kernel

import "github.com/contiv/contiv/models"

// lacks are the models that the kernel vswitch has nothing for, and what to do
// instead.
var lacks = map[*models.Model]string{
	models.ABF: "forwarding by access lists: add routes to the destinations, or policy rules (`ip rule`) on the host",
	models.IPScanNeighbor: "scans of neighbours: the Linux kernel probes the neighbours that are used by itself; " +
		"the sysctls net.ipv4.neigh.<device>.* say how",
	models.DHCPProxy:  "a DHCP proxy: run a relay such as dhcrelay on the host",
	models.L3XConnect: "L3 cross-connects: add routes to the destinations, or policy rules (`ip rule`) on the host",
	models.TEIB:       "endpoints of multipoint tunnels: make a VXLAN tunnel for each peer",
	models.VRRP:       "VRRP: run keepalived on the host, whose network stack this vswitch is",
	models.IPSecSPD:   ipsec, models.IPSecSP: ipsec, models.IPSecSA: ipsec, models.IPSecTunnelProtection: ipsec,
	models.PuntIPRedirect: punt, models.PuntToHost: punt,
	models.PuntException: "punting of dropped packets: count or log them with nftables on the host",
	models.STNRule:       "STN rules: this vswitch is the network stack of the host, which gets the packets for its addresses anyway: leave the rule out",
	models.DNSCache:      "a DNS cache: run one on the host, such as dnsmasq",
	models.WireGuardPeer: "WireGuard: configure it with `wg` on the host, and use the device as interface of type DPDK",
	models.IPFIX:         ipfix, models.FlowProbeParams: ipfix, models.FlowProbeFeature: ipfix,
}

const (
	ipsec = "IPsec: configure it on the host, for example with strongSwan: this vswitch is the host's network stack"
	ipfix = "IPFIX: run an exporter such as softflowd on the host; its devices are those of this vswitch"
	punt  = "punting: this vswitch is the network stack of the host, whose processes get the packets for its addresses: " +
		"let the process listen there, and leave the value out"
)

// Lacks says why the kernel vswitch does not configure values of the model.
func (v *VSwitch) Lacks(model *models.Model) string { return lacks[model] }
