package main

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/contiv/contiv/netlink/sockets"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/store/etcd"
	namespaces "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// needs returns the addresses and ports that no service gets, because this node needs them.
func needs(o options, remote *etcd.Store, servers *apiServers, links hostLinks) service.Needs {
	n := service.Needs{Etcd: remote.Addresses, APIServer: servers.addresses, Sockets: receivers, Addresses: func() (list []netip.Addr) {
		for _, p := range links.addresses() {
			list = append(list, p.Addr())
		}
		return list
	}}
	for owner, addresses := range map[string][]string{"the agent (REST, health)": o.http, "the agent (gRPC)": o.grpc, "the agent (metrics)": o.metrics.Addresses} {
		for _, address := range addresses {
			n.Listeners = append(n.Listeners, service.Listener{Address: address, Owner: owner})
		}
	}
	return n
}

var protocolsOfSockets = map[byte]processor.Protocol{unix.IPPROTO_TCP: processor.TCP, unix.IPPROTO_UDP: processor.UDP, unix.IPPROTO_SCTP: processor.SCTP}

// receivers returns the sockets of this node that receive from everybody.
func receivers() (list []nodesync.Socket, err error) {
	all, err := sockets.Receivers(namespaces.None())
	for _, r := range all {
		list = append(list, nodesync.Socket{Protocol: string(protocolsOfSockets[r.Protocol]), Addr: r.Local.Addr(), Port: r.Local.Port()})
	}
	return list, err
}

// devicesOfOthers have addresses of services, which are not the node's.
var devicesOfOthers = []string{"kube-ipvs0", "nodelocaldns"}

// thisHost returns the addresses and ports of this machine that other nodes need to know. Unconnected UDP
// sockets of the ephemeral range belong to clients and are left out.
func thisHost(links hostLinks) (nodesync.Host, error) {
	all, err := links.HostLinks()
	if err != nil {
		return nodesync.Host{}, err
	}
	var addresses []netip.Addr
	for _, link := range all {
		if slices.Contains(devicesOfOthers, link.Name) {
			continue
		}
		for _, p := range link.Addresses {
			addresses = append(addresses, p.Addr())
		}
	}
	inUse, err := receivers()
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
