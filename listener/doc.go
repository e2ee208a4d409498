// Package listener opens the addresses on which our programs can be reached, and
// decides who may come in.
//
//	unix:///path   a socket with mode 0600: the user that the program runs as
//	host:port      loopback: everybody on this machine
//	               other addresses: whoever has a client certificate
//
// A TCP address is served with TLS if a certificate is given, and asks for client
// certificates if an authority for them is given. An address that others than this
// machine can reach is refused without client certificates, unless the user says
// that it shall be open.
package listener
