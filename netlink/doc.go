// Package netlink is empty. The packages below it are the transports to the kernel for all code
// that configures Linux:
//
//	rtnl       rtnetlink: links, addresses, neighbours, routes, rules
//	nft        nftables: one transaction, one dump, generations
//	xtables    the tables of iptables-legacy, to be read
//	sockets    sock_diag: connections of TCP that are ended
//	events     notifications of the kernel: sockets, namespaces, lost events
//	namespace  a network namespace: sockets in it, sysctls, processes
//	nlattr     the attributes in messages of both
//
// They are independent of Contiv: ownership and purpose of objects are up to the callers.
package netlink
