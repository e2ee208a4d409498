package vswitch

import (
	"github.com/contiv/contiv/api/contiv/guard"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
)

// Extras are optional ports: a vswitch returns nil for those that it lacks. Values that need a
// missing port are still validated, so that mistakes show on every vswitch. They become
// UNIMPLEMENTED with the text of Lacks at once, without waiting for their dependencies.
//
// A vswitch that embeds NoExtras has none but those that it has methods for.
type Extras interface {
	ABFs() ABFs
	// STNRules hand packets for an address, wanted by nothing in the vswitch, to the
	// host behind an interface that exists.
	STNRules() Values[*vpp_stn.Rule]
	// PuntsToHost hand packets for a port of the vswitch's addresses, wanted by nothing
	// in it, to a process.
	PuntsToHost() Values[*vpp_punt.ToHost]
	// PuntExceptions hand packets that would be dropped for a reason to a process.
	PuntExceptions() Values[*vpp_punt.Exception]
	// IPRedirects send packets for the vswitch, wanted by nothing in it, to a neighbour.
	// The interfaces exist.
	IPRedirects() Values[*vpp_punt.IPRedirect]
	// IPScanNeighbors has one value at most: how long silent neighbours are remembered.
	// Without it, that is the vswitch's default. Create also changes it.
	IPScanNeighbors() Values[*vpp_l3.IPScanNeighbor]
	// DHCPProxies relay DHCP requests of a VRF, by IP version. Create also changes the
	// servers and the source.
	DHCPProxies() Values[*vpp_l3.DHCPProxy]
	// TEIBs say where the peers of multipoint tunnels are.
	TEIBs() Values[*vpp_l3.TeibEntry]
	RxQueues() RxQueues
	SourceGuards() SourceGuards
	// SourceRanges restrict who may use addresses that stand for others, where mappings do not: one value
	// at most. Create also changes it. Guards and interfaces may come before or after it.
	SourceRanges() Values[*guard.SourceRanges]
}

// NoExtras has none of the Extras.
type NoExtras struct{}

var _ Extras = NoExtras{}

func (NoExtras) ABFs() ABFs                                      { return nil }
func (NoExtras) STNRules() Values[*vpp_stn.Rule]                 { return nil }
func (NoExtras) PuntsToHost() Values[*vpp_punt.ToHost]           { return nil }
func (NoExtras) PuntExceptions() Values[*vpp_punt.Exception]     { return nil }
func (NoExtras) IPRedirects() Values[*vpp_punt.IPRedirect]       { return nil }
func (NoExtras) IPScanNeighbors() Values[*vpp_l3.IPScanNeighbor] { return nil }
func (NoExtras) DHCPProxies() Values[*vpp_l3.DHCPProxy]          { return nil }
func (NoExtras) TEIBs() Values[*vpp_l3.TeibEntry]                { return nil }
func (NoExtras) RxQueues() RxQueues                              { return nil }
func (NoExtras) SourceGuards() SourceGuards                      { return nil }
func (NoExtras) SourceRanges() Values[*guard.SourceRanges]       { return nil }
