// Package netlink is empty. Its subpackages are the transports to the kernel for all code that
// configures Linux:
//
//	rtnl       rtnetlink: links, addresses, neighbours, routes, rules
//	nft        nftables: one transaction, one dump, generations
//	xtables    the tables of iptables-legacy (read only)
//	sockets    sock_diag: ends TCP connections
//	events     notifications of the kernel: sockets, namespaces, lost events
//	namespace  a network namespace: sockets in it, sysctls, processes
//	nlattr     the attributes in netlink messages
//
// They do not know Contiv: callers decide about ownership of objects.
package netlink
