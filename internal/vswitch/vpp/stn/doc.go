// Package stn hands packets for addresses of the host to it, by VPP's plugin stn.
package stn
