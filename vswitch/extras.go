package vswitch

import (
	"context"

	"github.com/contiv/contiv/api/contiv/guard"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Extras are ports that a vswitch may be without: it returns nil then. Values that need
// one are validated all the same, so that mistakes show whatever the vswitch, and are
// UNIMPLEMENTED with what Lacks says: at once, without waiting for what they would need.
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

// registerExtras registers descriptors of the Extras.
func registerExtras(r *registrar, f Features) {
	abfs := f.ABFs()
	extra(r, f, abfs != nil, abfDescriptor(abfs))
	if abfs != nil {
		register(r, abfInterfaceDescriptor(abfs))
	}
	extraValues(r, f, f.STNRules(), stnDescriptor())
	extraValues(r, f, f.PuntsToHost(), puntToHostDescriptor())
	extraValues(r, f, f.PuntExceptions(), puntExceptionDescriptor())
	extraValues(r, f, f.IPRedirects(), ipRedirectDescriptor())
	extraValues(r, f, f.IPScanNeighbors(), ipScanNeighborDescriptor())
	extraValues(r, f, f.DHCPProxies(), dhcpProxyDescriptor())
	extraValues(r, f, f.TEIBs(), teibDescriptor())
	extraValues[*guard.SourceGuard](r, f, f.SourceGuards(), sourceGuardDescriptor())
	queues := f.RxQueues()
	extra(r, f, queues != nil, rxModesDescriptor(queues))
	extra(r, f, queues != nil, rxPlacementDescriptor(queues))
}

// extra registers a descriptor whose callbacks use a port that the vswitch may not have.
// The descriptor is made without asking the port for its methods.
func extra[V proto.Message](r *registrar, f Features, has bool, d kvscheduler.Descriptor[V, noMeta]) {
	if !has {
		d = unimplemented(f, d)
	}
	register(r, d)
}

// extraValues is extra for a port of Values, whose methods are the operations of the
// descriptor. If it says which changes need a re-creation, Create makes the others.
func extraValues[V proto.Message](r *registrar, f Features, port Values[V], d kvscheduler.Descriptor[V, noMeta]) {
	if port != nil {
		d.Create, d.Delete, d.Retrieve = create(port.Create), remove(port.Delete), retrieve(port.List)
		if d.UpdateWithRecreate != nil {
			d.Update = update(func(ctx context.Context, _, new V) error { return port.Create(ctx, new) })
		}
	}
	extra(r, f, port != nil, d)
}

// never is for descriptors whose values are changed as they are.
func never[V proto.Message](string, V, V, noMeta) bool { return false }

// unimplemented is the descriptor for a vswitch that does not do what it is about.
func unimplemented[V proto.Message](f Features, d kvscheduler.Descriptor[V, noMeta]) kvscheduler.Descriptor[V, noMeta] {
	return kvscheduler.Descriptor[V, noMeta]{
		Name: d.Name, Keys: d.Keys, NB: d.NB, Validate: d.Validate,
		Create: func(context.Context, string, V) (noMeta, error) {
			return noMeta{}, Unsupported("%s", f.Lacks(d.Name))
		},
		Delete: noopDelete[V],
	}
}
