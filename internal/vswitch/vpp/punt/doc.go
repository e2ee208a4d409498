// Package punt hands packets that VPP would process itself or drop to sockets (punt.go), or to the
// host by an interface (redirect.go).
package punt
