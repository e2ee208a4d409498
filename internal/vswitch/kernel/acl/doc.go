// Package acl implements access lists with nftables, in the tables "inet contiv-acl" for routed
// packets and "bridge contiv-acl" for bridged frames (table.go).
//
//	rules ──compile──> layers of verdict maps ──> chain of the list <── chains of interfaces
//
// The comments of a chain's rules contain hashes of their text. So a changed list is detected
// without parsing the rules.
package acl
