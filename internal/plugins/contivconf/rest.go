package contivconf

import (
	"errors"
	"net/http"
	"net/netip"

	"github.com/contiv/contiv/internal/lib/rest"
)

// URL is the path of Handler.
const URL = "/contiv/v1/node-config"

// Report is the response of GET /contiv/v1/node-config: this node's resolved configuration in
// force.
type Report struct {
	NodeName string `json:"nodeName"`
	// Source of the node's own configuration: "contiv.conf" or "NodeConfig".
	Source Source `json:"source"`
	// Refused is the reason why the NodeConfig in etcd, or its removal, is not in force.
	Refused string `json:"refused,omitempty"`

	// MainInterface leads to other nodes. Its name may be empty.
	MainInterface      InterfaceReport   `json:"mainInterface"`
	OtherInterfaces    []InterfaceReport `json:"otherInterfaces"`
	Gateways           []netip.Addr      `json:"gateways"`
	NatExternalTraffic bool              `json:"natExternalTraffic"`
}

// InterfaceReport describes an interface.
type InterfaceReport struct {
	Name string `json:"name"`
	// IPs to assign, with prefix lengths.
	IPs []netip.Prefix `json:"ips"`
	// LinkIPs are existing addresses in use. Only for the main interface.
	LinkIPs []netip.Prefix `json:"linkIPs,omitempty"`
	UseDHCP bool           `json:"useDHCP,omitempty"`
}

func (i *Interface) report() InterfaceReport {
	return InterfaceReport{Name: i.Name, IPs: append([]netip.Prefix{}, i.Addresses...), UseDHCP: i.UseDHCP}
}

// Report returns the configuration in force, or false before the first resync.
func (c *ContivConf) Report() (Report, bool) {
	now, started := c.current()
	report := Report{
		NodeName: c.nodeName, Source: now.source,
		MainInterface: now.resolved.Main.report(), OtherInterfaces: []InterfaceReport{},
		Gateways:           append([]netip.Addr{}, now.resolved.Gateways...),
		NatExternalTraffic: c.config.NatExternalTraffic || now.config.NatExternalTraffic,
	}
	for _, ip := range []netip.Prefix{now.resolved.LinkAddress, now.resolved.SecondLinkAddress} {
		if ip.IsValid() {
			report.MainInterface.LinkIPs = append(report.MainInterface.LinkIPs, ip)
		}
	}
	for i := range now.resolved.Other {
		report.OtherInterfaces = append(report.OtherInterfaces, now.resolved.Other[i].report())
	}
	if err := c.NodeConfigError(); err != nil {
		report.Refused = err.Error()
	}
	return report, started
}

// Handler serves GET /contiv/v1/node-config.
func (c *ContivConf) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, _ *http.Request) {
		report, ready := c.Report()
		switch {
		case !ready:
			rest.Error(w, http.StatusServiceUnavailable, errors.New("the configuration of this node is not resolved before the startup resync: try again later"))
		default:
			rest.JSON(w, report)
		}
	})
}
