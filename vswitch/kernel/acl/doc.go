// Package acl makes access lists of nftables, in tables "inet contiv-acl" for packets
// that are routed and "bridge contiv-acl" for frames that are bridged (table.go).
//
//	rules ──compile──> layers of verdict maps ──> chain of the list <── chains of interfaces
//
// A chain is known by the comments of its rules, hashes of their text among them: so a
// list that somebody changed is recognised without parsing what nft prints.
package acl
