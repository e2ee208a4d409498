package main

import (
	"net/netip"

	"github.com/contiv/contiv/netlink/sockets"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
	"github.com/contiv/contiv/plugins/service/reserved"
	"github.com/contiv/contiv/store/etcd"
	namespaces "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// needs returns the addresses and ports that no service gets, because this node needs them.
func needs(o options, remote *etcd.Store, links hostLinks) service.Needs {
	n := service.Needs{Etcd: remote.Addresses, Sockets: receivers, Addresses: func() (list []netip.Addr) {
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
func receivers() (list []reserved.Socket, err error) {
	all, err := sockets.Receivers(namespaces.None())
	for _, r := range all {
		list = append(list, reserved.Socket{Protocol: string(protocolsOfSockets[r.Protocol]), Addr: r.Local.Addr(), Port: r.Local.Port()})
	}
	return list, err
}
