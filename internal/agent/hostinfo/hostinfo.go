// Package hostinfo reads the links, addresses and sockets of this machine.
package hostinfo

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/contiv/contiv/internal/netlink/sockets"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/internal/vswitch/linux"
	namespaces "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Links reads the links of the agent's network namespace with package linux.
type Links struct{}

func (Links) HostLinks() ([]contivconf.HostLink, error) {
	links, err := linux.Links("")
	if err != nil {
		return nil, err
	}
	result := make([]contivconf.HostLink, len(links))
	for i, l := range links {
		result[i] = contivconf.HostLink(l)
	}
	return result, nil
}

// Prefixes returns the addresses of all links, with the lengths of their networks.
func (l Links) Prefixes() (list []netip.Prefix) {
	links, _ := l.HostLinks()
	for _, link := range links {
		list = append(list, link.Addresses...)
	}
	return list
}

// Addresses returns the addresses of all links.
func (l Links) Addresses() (list []netip.Addr) {
	for _, p := range l.Prefixes() {
		list = append(list, p.Addr())
	}
	return list
}

var protocolsOfSockets = map[byte]processor.Protocol{unix.IPPROTO_TCP: processor.TCP, unix.IPPROTO_UDP: processor.UDP, unix.IPPROTO_SCTP: processor.SCTP}

// Receivers returns the sockets of this machine that receive from any sender.
func Receivers() (list []nodesync.Socket, err error) {
	all, err := sockets.Receivers(namespaces.None())
	for _, r := range all {
		list = append(list, nodesync.Socket{Protocol: string(protocolsOfSockets[r.Protocol]), Addr: r.Local.Addr(), Port: r.Local.Port()})
	}
	return list, err
}

// serviceDevices have addresses of services, which are not the node's.
var serviceDevices = []string{"kube-ipvs0", "nodelocaldns"}

// Published returns the addresses and ports of this machine that other nodes need to know. Unconnected UDP
// sockets of the ephemeral range belong to clients and are left out.
func (l Links) Published() (nodesync.Host, error) {
	all, err := l.HostLinks()
	if err != nil {
		return nodesync.Host{}, err
	}
	var addresses []netip.Addr
	for _, link := range all {
		if slices.Contains(serviceDevices, link.Name) {
			continue
		}
		for _, p := range link.Addresses {
			addresses = append(addresses, p.Addr())
		}
	}
	inUse, err := Receivers()
	if err != nil {
		return nodesync.Host{}, err
	}
	first, last, err := ephemeralPorts()
	if err != nil {
		return nodesync.Host{}, err
	}
	inUse = slices.DeleteFunc(inUse, func(s nodesync.Socket) bool {
		return s.Protocol == string(processor.UDP) && s.Port >= first && s.Port <= last
	})
	return nodesync.NewHost(addresses, inUse), nil
}

func ephemeralPorts() (first, last uint16, err error) {
	const file = "/proc/sys/net/ipv4/ip_local_port_range"
	text, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(text), &first, &last)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", file, err)
	}
	return first, last, nil
}
