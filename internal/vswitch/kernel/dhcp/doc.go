// Package dhcp is a DHCP client for IPv4 (RFC 2131): it acquires, renews and releases the lease of
// one device. A library encodes the messages; this package decides when to send which one.
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
// The device stores the lease: as a marked address that expires by itself, with marked routes. A
// restarted process reads it (Device.Leased) and requests the same address, which stays in use
// meanwhile.
package dhcp
