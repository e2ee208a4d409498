package srv6

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/sr"
)

var module = session.NewModule("", "segment routing",
	&sr.SrLocalsidAddDel{}, &sr.SrLocalsidAddDelReply{}, &sr.SrLocalsidsDump{}, &sr.SrLocalsidsDetails{},
	&sr.SrPolicyAddV2{}, &sr.SrPolicyAddV2Reply{}, &sr.SrPolicyModV2{}, &sr.SrPolicyModV2Reply{},
	&sr.SrPolicyDel{}, &sr.SrPolicyDelReply{}, &sr.SrPoliciesV2Dump{}, &sr.SrPoliciesV2Details{},
	&sr.SrPoliciesWithSlIndexDump{}, &sr.SrPoliciesWithSlIndexDetails{},
	&sr.SrSteeringAddDel{}, &sr.SrSteeringAddDelReply{}, &sr.SrSteeringPolDump{}, &sr.SrSteeringPolDetails{},
	&sr.SrSetEncapSource{}, &sr.SrSetEncapSourceReply{},
)

// SRv6 is VPP's segment routing. All of it is ours, because nothing else configures it in this VPP.
// Objects that VPP cannot change are deleted and created by requests that are sent together:
// without worker threads, VPP handles no packet between them.
type SRv6 struct {
	subsystem.Base
	vpp      *session.Session
	ifs      *ownership.Registry
	log      *slog.Logger
	sr       srLock
	nextHops nextHops
	// onSIDs is called when a local SID is added or removed.
	onSIDs func(context.Context) error
}

var _ vswitch.SRv6 = (*SRv6)(nil)

// New returns the segment routing of a VPP. onSIDs is called when a local SID is added or removed.
func New(vpp *session.Session, ifs *ownership.Registry, onSIDs func(context.Context) error, log *slog.Logger) *SRv6 {
	return &SRv6{Base: subsystem.Base{Uses: []*session.Module{module, askModule}}, vpp: vpp, ifs: ifs, onSIDs: onSIDs, log: log}
}

// LocalSIDs returns the part of the driver for local SIDs: what VPP does with packets for its own segments.
func (v *SRv6) LocalSIDs() vswitch.Values[*vpp_srv6.LocalSID] { return localSIDs{v} }

// Policies are lists of segments.
func (v *SRv6) Policies() vswitch.Values[*vpp_srv6.Policy] { return srPolicies{v} }

// Steerings returns the port that assigns traffic to policies.
func (v *SRv6) Steerings() vswitch.Values[*vpp_srv6.Steering] { return srSteerings{v} }

// Globals returns the port of the source of encapsulated packets.
func (v *SRv6) Globals() vswitch.Values[*vpp_srv6.SRv6Global] { return srGlobals{v} }

// Concerns records that VPP may have forgotten neighbours of local SIDs. No value is concerned.
func (v *SRv6) Concerns(e subsystem.Event) []string {
	if e.Kind == subsystem.NeighbourRemoved {
		v.nextHops.lost(nextHop{e.Index, e.IP})
	}
	return nil
}

// srState holds VPP's policies and their objects.
type srState struct {
	source    netip.Addr // of encapsulated packets
	policies  map[netip.Addr]*srPolicy
	steerings []*sr.SrSteeringPolDetails
}

// srPolicy is a policy with VPP's numbers of its segment lists.
type srPolicy struct {
	*sr.SrPoliciesV2Details
	lists []sr.Srv6SidListWithSlIndex
}

func (v *SRv6) read(ctx context.Context) (*srState, error) {
	policies := session.StartDump[sr.SrPoliciesV2Details](ctx, v.vpp, module, &sr.SrPoliciesV2Dump{})
	lists := session.StartDump[sr.SrPoliciesWithSlIndexDetails](ctx, v.vpp, module, &sr.SrPoliciesWithSlIndexDump{})
	steerings := session.StartDump[sr.SrSteeringPolDetails](ctx, v.vpp, module, &sr.SrSteeringPolDump{})
	s := &srState{policies: map[netip.Addr]*srPolicy{}}
	all, err := policies.Wait(ctx)
	numbered, err2 := lists.Wait(ctx)
	var err3, err4 error
	s.steerings, err3 = steerings.Wait(ctx)
	s.source, err4 = v.encapSource(ctx)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return nil, fmt.Errorf("reading segment routing: %w", err)
	}
	for _, p := range all {
		s.policies[netip.AddrFrom16(p.Bsid)] = &srPolicy{SrPoliciesV2Details: p}
	}
	for _, p := range numbered {
		if policy := s.policies[netip.AddrFrom16(p.Bsid)]; policy != nil {
			policy.lists = p.SidLists
		}
	}
	return s, nil
}

// encapSource parses CLI output: VPP's API can set the source but not report it.
func (v *SRv6) encapSource(ctx context.Context) (netip.Addr, error) {
	text, err := v.vpp.CLI(ctx, "show sr encaps source addr")
	if err != nil {
		return netip.Addr{}, err
	}
	_, addr, _ := strings.Cut(text, "=")
	source, err := netip.ParseAddr(strings.TrimSpace(addr))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("VPP's command line says of the source of encapsulated packets %q, not understood", text)
	}
	return source, nil
}

// Segment routing reuses error codes whose names belong to other features.
const (
	srExists       api.VPPApiError = -1
	srNotThere     api.VPPApiError = -2
	srNoTable      api.VPPApiError = -3
	srAddressTaken api.VPPApiError = -4
	srNoSteering   api.VPPApiError = -4
	srNoPolicy     api.VPPApiError = -1
	srBSIDTaken    api.VPPApiError = -12
	srNoBSIDTable  api.VPPApiError = -13
)

// srLock is held while segment routing is read and changed.
type srLock struct {
	sync.Mutex
	names map[traffic]string // of steerings, not stored by VPP
}

func address6(text string) ip_types.IP6Address {
	addr, _ := netip.ParseAddr(text)
	return addr.As16()
}
