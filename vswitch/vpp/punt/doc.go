// Package punt is what VPP does with packets for itself, and with those that it would drop:
// it hands them to sockets (punt.go) or to the host by an interface (redirect.go).
package punt
