// Package iptables configures the rule chains of config/linux/iptables/v2 in the agent's network
// namespace and in those of pods. It runs iptables and ip6tables.
//
//	scheduler ──create, update, delete──> Chains ──iptables-restore, in the namespace──> kernel
//	scheduler <──retrieve──────────────── Chains <──iptables-save─────────────────────── kernel
//	scheduler <──report──────────────────  Watch <──events of nftables────────────────── kernel
//
// The comment of the first rule identifies our chains. That rule has no effect; its comment also
// shows whether the other rules are still the requested ones.
package iptables
