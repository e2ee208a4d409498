package punt

import (
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// puntToHostDescriptor handles config/vpp/v2/tohost/l3/{v}/l4/{p}/port/{port}.
func puntToHostDescriptor() kvscheduler.Descriptor[*vpp_punt.ToHost, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_punt.ToHost, descriptor.NoMeta]{
		Name:     vswitch.PuntToHostDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.PuntToHost.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_punt.ToHost) error { return validateToHost(p) },
	}
}

// puntExceptionDescriptor handles config/vpp/v2/exception/reason/{reason}.
func puntExceptionDescriptor() kvscheduler.Descriptor[*vpp_punt.Exception, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_punt.Exception, descriptor.NoMeta]{
		Name:     vswitch.PuntExceptionDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.PuntException.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_punt.Exception) error { return validateException(p) },
	}
}

// ipRedirectDescriptor handles config/vpp/v2/ipredirect/l3/{v}/tx/{if}.
func ipRedirectDescriptor() kvscheduler.Descriptor[*vpp_punt.IPRedirect, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_punt.IPRedirect, descriptor.NoMeta]{
		Name:     vswitch.IPRedirectDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.PuntIPRedirect.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, p *vpp_punt.IPRedirect) error { return validateIPRedirect(p) },
		Equivalent: func(_ string, a, b *vpp_punt.IPRedirect) bool {
			return a.GetL3Protocol() == b.GetL3Protocol() && a.GetRxInterface() == b.GetRxInterface() &&
				a.GetTxInterface() == b.GetTxInterface() && descriptor.SameAddrText(a.GetNextHop(), b.GetNextHop())
		},
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, p *vpp_punt.IPRedirect) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "tx-interface-exists", Key: models.VPPInterfaceKey(p.GetTxInterface())}}
			if rx := p.GetRxInterface(); rx != "" {
				deps = append(deps, kvscheduler.Dependency{Label: "rx-interface-exists", Key: models.VPPInterfaceKey(rx)})
			}
			return deps
		},
	}
}

func validateIPRedirect(p *vpp_punt.IPRedirect) error {
	if p.GetL3Protocol() == vpp_punt.L3Protocol_UNDEFINED_L3 {
		return descriptor.Invalid("l3_protocol", "say which packets: IPV4, IPV6 or ALL")
	}
	return descriptor.FirstError(
		descriptor.Required("tx_interface", p.GetTxInterface(), "name the interface that packets are sent out by"),
		descriptor.ValidAddr("next_hop", p.GetNextHop()),
	)
}

func validateToHost(p *vpp_punt.ToHost) error {
	switch {
	case p.GetL3Protocol() == vpp_punt.L3Protocol_UNDEFINED_L3:
		return descriptor.Invalid("l3_protocol", "say which packets: IPV4, IPV6 or ALL")
	case p.GetL4Protocol() == vpp_punt.L4Protocol_UNDEFINED_L4:
		return descriptor.Invalid("l4_protocol", "say which packets: TCP or UDP")
	case p.GetPort() == 0 || p.GetPort() > 65535:
		return descriptor.Invalid("port", "%d is no port: use 1 to 65535", p.GetPort())
	}
	return nil
}

func validateException(p *vpp_punt.Exception) error {
	return descriptor.FirstError(
		descriptor.Required("reason", p.GetReason(), "name the reason for which packets would be dropped"),
		descriptor.Required("socket_path", p.GetSocketPath(), "give the unix socket of the process that gets them"),
	)
}
