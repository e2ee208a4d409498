// Package vrf gives VRFs to kernels without VRF devices: a VRF is a routing table, and
// policy rules and packet marks that lead to it (rules.go, marks.go). Nothing is changed,
// the host's rule for the table local included, before the first VRF other than 0 is
// asked for; with the last one everything is put back.
package vrf
