// Package cnat is DNAT66, and those values of DNat44 that are services, by VPP's plugin cnat.
//
//	ports.go         the ports: DNAT66, Services44
//	translations.go  values ──> translations of an IP version, the difference to what VPP has, requests
//	translation.go   a translation, marked as ours by paths that are never used
//	features.go      which interfaces translate what enters, as long as there are translations
//	network.go       ServiceNetwork: interfaces of clients outside, what is refused
package cnat
