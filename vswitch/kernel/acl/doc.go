// Package acl makes access lists of nftables, in tables "inet contiv-acl" for packets
// that are routed and "bridge contiv-acl" for frames that are bridged (table.go).
//
//	rules ──compile──> layers of verdict maps ──> chain of the list <── chains of interfaces
//
// A chain is recognised by the comments of its rules, which contain hashes of their text. A changed
// list is therefore detected without parsing the output of nft.
package acl
