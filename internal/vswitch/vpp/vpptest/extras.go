package vpptest

import (
	"go.fd.io/govpp/binapi/dhcp"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/stn"
	"go.fd.io/govpp/binapi/teib"
)

// extras is the state of features that few other vswitches have.
type extras struct {
	abf     abfState
	stn     []stn.StnRulesDetails
	punt    puntState
	aging   map[ip_types.AddressFamily]ip_neighbor.IPNeighborConfig
	proxies []*dhcp.DHCPProxyDetails
	teib    []teib.TeibEntry
	peers   peerState
}
