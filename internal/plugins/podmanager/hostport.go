package podmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

// HostPort is a port of the node that leads to a port of a pod.
type HostPort struct {
	// Address is an address of the node. The zero Addr means all of them, an unspecified one all of
	// its IP version.
	Address netip.Addr `json:"address,omitzero"`
	Port    uint16     `json:"port"`
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol string `json:"protocol"`
	PodPort  uint16 `json:"podPort"`
}

// String returns for example "8080/TCP" or "192.168.16.1:8080/TCP".
func (p HostPort) String() string {
	if !p.Address.IsValid() {
		return fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(p.Address, p.Port), p.Protocol)
}

// IsOn reports whether the port applies to an address of the node.
func (p HostPort) IsOn(addr netip.Addr) bool {
	return !p.Address.IsValid() || p.Address == addr || p.Address.IsUnspecified() && p.Address.Is6() == addr.Is6()
}

// Overlaps reports whether a connection could match both.
func (p HostPort) Overlaps(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (!p.Address.IsValid() || !o.Address.IsValid() || p.IsOn(o.Address) || o.IsOn(p.Address))
}

func parseHostPorts(raw json.RawMessage) (ports []HostPort, err error) {
	const field = "runtimeConfig.portMappings in extra_nw_config"
	var entries []struct {
		HostPort, ContainerPort int
		Protocol, HostIP        string
	}
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf(`%s is no list of objects such as {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}: %w`, field, err)
	}
	var errs []error
	for i, e := range entries {
		refuse := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s[%d]: %s", field, i, fmt.Sprintf(format, args...)))
		}
		p := HostPort{Port: uint16(e.HostPort), PodPort: uint16(e.ContainerPort), Protocol: strings.ToUpper(e.Protocol)}
		switch {
		case e.HostPort < 1 || e.HostPort > 65535:
			refuse("hostPort %d is none of 1 to 65535", e.HostPort)
		case e.ContainerPort < 1 || e.ContainerPort > 65535:
			refuse("containerPort %d is none of 1 to 65535", e.ContainerPort)
		case p.Protocol != "TCP" && p.Protocol != "UDP" && p.Protocol != "SCTP":
			refuse("protocol %s is none of tcp, udp and sctp", shown(e.Protocol))
		}
		if e.HostIP != "" {
			switch addr, err := kubeaddr.ParseAddr(e.HostIP); {
			case err != nil || addr.IsMulticast():
				refuse("hostIP %s is no address of a node", shown(e.HostIP))
			case addr.IsLoopback():
				refuse("hostIP %s: host ports are not open on loopback addresses; leave hostIP out, or chain the plugin portmap", addr)
			default:
				p.Address = addr
			}
		}
		if other := slices.IndexFunc(ports, func(o HostPort) bool { return o.Overlaps(p) && o.PodPort != p.PodPort }); other >= 0 {
			refuse("%v is to lead to port %d and to port %d of the pod", p, ports[other].PodPort, p.PodPort)
		}
		if !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	return ports, errors.Join(errs...)
}
