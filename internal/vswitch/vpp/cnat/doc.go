// Package cnat implements DNAT66, and the DNat44 values that are services, with VPP's plugin cnat.
//
//	ports.go         the ports: DNAT66, Services44
//	translations.go  values ──> translations of an IP version, the difference to VPP's, requests
//	translation.go   a translation, marked as ours by a separate record
//	known.go         cache of VPP's translations
//	hold.go          backends of connections are pinned in the FIB
//	moves.go         flows whose backend leaves: silenced until VPP has forgotten them
//	resets.go        connections of TCP whose backend leaves: ended by their sockets
//	outside.go       … those of clients outside
//	host.go          … those of the host
//	features.go      which interfaces translate what enters, as long as there are translations
//	vouch.go         VPP's own messages to a host that shares its addresses
//	network.go       ServiceNetwork: interfaces of external clients, refused destinations
package cnat
