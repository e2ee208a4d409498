// Package vrf implements VRFs with policy routing, on all kernels: a VRF is a routing table, with
// policy rules and packet marks that lead to it (rules.go, marks.go). VRF devices, which many kernels
// lack, are not used. Nothing on the host is changed, including its rule for the table local, before
// the first VRF other than 0 is requested; everything is restored with the last one.
package vrf
