// Package listener opens the addresses of our programs and authenticates clients.
//
//	unix:///path   a socket with mode 0600: the user that the program runs as
//	host:port      loopback: all users of this machine
//	               other addresses: clients with a certificate
//
// TCP addresses use TLS if a certificate is given, and require client certificates if an authority
// for these is given. Addresses reachable from other machines need client certificates unless the
// user explicitly allows unauthenticated access.
package listener
