// Package iptables configures the rule chains of config/linux/iptables/v2, in the agent's own network
// namespace and in those of pods, by the programs iptables and ip6tables.
//
//	scheduler ──create, update, delete──> Chains ──iptables-restore, in the namespace──> kernel
//	scheduler <──retrieve──────────────── Chains <──iptables-save─────────────────────── kernel
//	scheduler <──report──────────────────  Watch <──events of nftables────────────────── kernel
//
// A chain of ours is recognised by the comment of its first rule, which does nothing and also shows whether
// the other rules are still those that were asked for.
package iptables
