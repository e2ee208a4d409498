// Package dhcp is a DHCP client for IPv4 (RFC 2131): it obtains an address for one device, keeps it
// as long as the server lets it, and gives it back. A library encodes the messages; this package
// decides when to send which one.
//
//	        address of an earlier process             no address
//	                   │ REQUEST                          │ DISCOVER, REQUEST
//	   NAK ┌───────────┴────────────┐             ┌───────┴───────┐
//	┌──────┤         resume         │             │    acquire    │<────────┐
//	│      └───────────┬────────────┘             └───────┬───────┘         │
//	│              ACK │ no answer: until it expires      │ ACK             │
//	│      ┌───────────┴──────────────────────────────────┴──────┐  NAK or  │
//	│      │ hold: T1 REQUEST to the server, T2 REQUEST to all   ├──────────┤
//	│      └─────────────────────────────────────────────────────┘ expired  │
//	└───────────────────────────────────────────────────────────────────────┘
//
// The lease is kept where it matters: as an address of the device that has a mark and expires by
// itself, with marked routes. A restarted process finds it there (Device.Leased) and asks the
// server for the same address, which stays in use meanwhile.
package dhcp
