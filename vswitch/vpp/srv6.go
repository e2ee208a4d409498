package vpp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/sr"
)

var srModule = newModule("", "segment routing",
	&sr.SrLocalsidAddDel{}, &sr.SrLocalsidAddDelReply{}, &sr.SrLocalsidsDump{}, &sr.SrLocalsidsDetails{},
	&sr.SrPolicyAddV2{}, &sr.SrPolicyAddV2Reply{}, &sr.SrPolicyModV2{}, &sr.SrPolicyModV2Reply{},
	&sr.SrPolicyDel{}, &sr.SrPolicyDelReply{}, &sr.SrPoliciesV2Dump{}, &sr.SrPoliciesV2Details{},
	&sr.SrPoliciesWithSlIndexDump{}, &sr.SrPoliciesWithSlIndexDetails{},
	&sr.SrSteeringAddDel{}, &sr.SrSteeringAddDelReply{}, &sr.SrSteeringPolDump{}, &sr.SrSteeringPolDetails{},
	&sr.SrSetEncapSource{}, &sr.SrSetEncapSourceReply{},
)

// srv6 is VPP's segment routing, all of which is ours: nobody else uses this VPP for it.
// What VPP cannot change it removes and makes again, by requests that are sent together:
// without worker threads VPP handles no packet between them.
type srv6 struct{ *VSwitch }

func (v *VSwitch) SRv6() vswitch.SRv6 { return srv6{v} }

func (v srv6) LocalSIDs() vswitch.Values[*vpp_srv6.LocalSID] { return localSIDs(v) }
func (v srv6) Policies() vswitch.Values[*vpp_srv6.Policy]    { return srPolicies(v) }
func (v srv6) Steerings() vswitch.Values[*vpp_srv6.Steering] { return srSteerings(v) }
func (v srv6) Globals() vswitch.Values[*vpp_srv6.SRv6Global] { return srGlobals(v) }

// srState is what VPP has of policies, and what belongs to them.
type srState struct {
	source    netip.Addr // of encapsulated packets
	policies  map[netip.Addr]*srPolicy
	steerings []*sr.SrSteeringPolDetails
}

// srPolicy is a policy with the numbers that VPP gave its segment lists.
type srPolicy struct {
	*sr.SrPoliciesV2Details
	lists []sr.Srv6SidListWithSlIndex
}

func (v srv6) read(ctx context.Context) (*srState, error) {
	policies := startDump[sr.SrPoliciesV2Details](ctx, v.VSwitch, srModule, &sr.SrPoliciesV2Dump{})
	lists := startDump[sr.SrPoliciesWithSlIndexDetails](ctx, v.VSwitch, srModule, &sr.SrPoliciesWithSlIndexDump{})
	steerings := startDump[sr.SrSteeringPolDetails](ctx, v.VSwitch, srModule, &sr.SrSteeringPolDump{})
	s := &srState{policies: map[netip.Addr]*srPolicy{}}
	all, err := policies.wait(ctx)
	numbered, err2 := lists.wait(ctx)
	var err3, err4 error
	s.steerings, err3 = steerings.wait(ctx)
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

// encapSource asks the command line: VPP's API can set the source, but not tell it.
func (v srv6) encapSource(ctx context.Context) (netip.Addr, error) {
	text, err := v.CLI(ctx, "show sr encaps source addr")
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

// Segment routing has codes of its own for what it refuses, which are others' by name.
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
	names map[traffic]string // of steerings, which VPP does not store
}

// isUnsupported tells if VPP lacks what was asked for.
func isUnsupported(err error) bool { return errors.Is(err, kvscheduler.ErrUnsupported) }

// isNoInterface tells if an interface was asked for that does not exist.
func isNoInterface(err error) bool {
	_, none := errors.AsType[*noInterfaceError](err)
	return none
}

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func address6(text string) ip_types.IP6Address {
	addr, _ := netip.ParseAddr(text)
	return addr.As16()
}

// textsOf returns how the expected values write addresses.
func textsOf[V any](expected []V, text func(V) string) func(netip.Addr) string {
	texts := map[netip.Addr]string{}
	for _, v := range expected {
		if addr, err := netip.ParseAddr(text(v)); err == nil {
			texts[addr] = text(v)
		}
	}
	return func(addr netip.Addr) string {
		if text := texts[addr]; text != "" {
			return text
		}
		return addr.String()
	}
}

// ifaceName returns the logical name of an interface; of others' interfaces one that no
// value has.
func (v *VSwitch) ifaceName(ctx context.Context, i index) (string, error) {
	name, err := v.ifs.name(ctx, i)
	if err == nil && name == "" {
		name = fmt.Sprintf("%s%d", unknownPrefix, i)
	}
	return name, err
}
