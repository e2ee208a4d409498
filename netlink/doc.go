// Package netlink is empty: the packages below it are the ways in which everything
// that configures Linux speaks to the kernel.
//
//	rtnl       rtnetlink: links, addresses, neighbours, routes, rules
//	nft        nftables: one transaction, one dump, generations
//	events     what the kernel tells of changes: sockets, namespaces, lost events
//	namespace  a network namespace: sockets in it, sysctls, processes
//	nlattr     the attributes that messages of both consist of
//
// They know nothing of Contiv: which objects are ours, and what they are for, is for
// the callers to say.
package netlink
