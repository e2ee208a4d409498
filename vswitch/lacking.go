package vswitch

import (
	"context"

	vpp_ipsec "github.com/contiv/contiv/api/ligato/vpp/ipsec"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// registerLacking registers the models that some vswitches have nothing for. Their
// values are validated, so that mistakes show whatever the vswitch, and then
// UNIMPLEMENTED with the vswitch's reason: at once, without waiting for what they
// would need.
func registerLacking(r *registrar, f Features) {
	lacking(r, f, "vpp-abf", models.ABF, validateABF)
	lacking(r, f, "vpp-ip-scan-neighbor", models.IPScanNeighbor, validateNothing[*vpp_l3.IPScanNeighbor])
	lacking(r, f, "dhcp-proxy", models.DHCPProxy, validateDHCPProxy)
	lacking(r, f, "vpp-l3xc", models.L3XConnect, validateL3XConnect)
	lacking(r, f, "vpp-teib", models.TEIB, validateTEIB)
	lacking(r, f, "vrrp", models.VRRP, validateVRRP)
	lacking(r, f, "vpp-ipsec-spd", models.IPSecSPD, validateSPD)
	lacking(r, f, "vpp-ipsec-sp", models.IPSecSP, validateSP)
	lacking(r, f, "vpp-ipsec-sa", models.IPSecSA, validateNothing[*vpp_ipsec.SecurityAssociation])
	lacking(r, f, "vpp-tun-protect", models.IPSecTunnelProtection, validateTunnelProtection)
	lacking(r, f, "vpp-punt-ipredirect", models.PuntIPRedirect, validateIPRedirect)
	lacking(r, f, "vpp-punt-to-host", models.PuntToHost, validateToHost)
	lacking(r, f, "vpp-punt-exception", models.PuntException, validateException)
	lacking(r, f, "vpp-stn-rules", models.STNRule, validateSTN)
	lacking(r, f, "vpp-dns-cache", models.DNSCache, validateDNSCache)
	lacking(r, f, "vpp-wg-peer", models.WireGuardPeer, validateWireGuardPeer)
	lacking(r, f, "vpp-ipfix", models.IPFIX, validateIPFIX)
	lacking(r, f, "vpp-flowprobe-params", models.FlowProbeParams, validateFlowProbeParams)
	lacking(r, f, "vpp-flowprobe-feature", models.FlowProbeFeature, validateFlowProbeFeature)
}

// lacking registers a model whose values nobody configures.
func lacking[V proto.Message](r *registrar, f Features, name string, model *models.Model, validate func(V) error) {
	register(r, kvscheduler.Descriptor[V, noMeta]{
		Name:     name,
		Keys:     kvscheduler.KeySpace{Prefix: model.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v V) error { return validate(v) },
		Create: func(context.Context, string, V) (noMeta, error) {
			return noMeta{}, Unsupported("%s", f.Lacks(model))
		},
		Delete: noopDelete[V],
	})
}

func validateNothing[V any](V) error { return nil }
