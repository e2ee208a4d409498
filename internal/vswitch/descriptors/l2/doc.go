// Package l2 contains the descriptors of bridge domains, their forwarding tables, cross-connects
// and mirrors.
package l2
