package vswitch

import (
	"github.com/contiv/contiv/api/contiv/guard"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
)

// Extras are optional ports, which are nil if the vswitch does not support them. Values of a
// missing port are still validated, so that mistakes show on every vswitch. They become
// UNIMPLEMENTED with the text of Lacks immediately, without waiting for their dependencies.
//
// A vswitch that embeds NoExtras supports only the ports that it overrides.
type Extras interface {
	ABFs() ABFs
	// STNRules pass packets to an address, unless the vswitch handles them, to the host behind an
	// existing interface.
	STNRules() Values[*vpp_stn.Rule]
	// PuntsToHost pass packets to a port of the vswitch's addresses, unless the vswitch handles
	// them, to a process.
	PuntsToHost() Values[*vpp_punt.ToHost]
	// PuntExceptions pass packets that would be dropped for a reason to a process.
	PuntExceptions() Values[*vpp_punt.Exception]
	// IPRedirects send packets for the vswitch, unless it handles them, to a neighbour. The
	// interfaces exist.
	IPRedirects() Values[*vpp_punt.IPRedirect]
	// IPScanNeighbors sets the lifetime of silent neighbours, by default the vswitch's own. At most
	// one value exists. Create also changes it.
	IPScanNeighbors() Values[*vpp_l3.IPScanNeighbor]
	// DHCPProxies relay DHCP requests of a VRF, by IP version. Create also changes the servers and
	// the source.
	DHCPProxies() Values[*vpp_l3.DHCPProxy]
	// TEIBs map the peers of multipoint tunnels to their underlay addresses.
	TEIBs() Values[*vpp_l3.TeibEntry]
	RxQueues() RxQueues
	SourceGuards() SourceGuards
	// SourceRanges restrict the clients of external addresses if mappings cannot. At most one value
	// exists. Create also changes it. Guards and interfaces may be created before or after it.
	SourceRanges() Values[*guard.SourceRanges]
}

// NoExtras supports none of the Extras.
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
