package abf

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/abf"
	"go.fd.io/govpp/binapi/fib_types"
)

var module = session.NewModule("abf_plugin.so", "forwarding by access lists",
	&abf.AbfPolicyAddDel{}, &abf.AbfPolicyAddDelReply{}, &abf.AbfPolicyDump{}, &abf.AbfPolicyDetails{},
	&abf.AbfItfAttachAddDel{}, &abf.AbfItfAttachAddDelReply{}, &abf.AbfItfAttachDump{}, &abf.AbfItfAttachDetails{},
)

// ABFs drives VPP's ABF policies of the same index. A policy is ours if its access list is. VPP
// does not validate attachments: it crashes on a policy that does not exist or is of the wrong IP
// version. So the policies are read first, with mu held.
type ABFs struct {
	subsystem.Base
	vpp  *session.Session
	ifs  *ownership.Registry
	acls AccessLists
	mu   sync.Mutex
}

// AccessLists provides VPP's indexes of access lists.
type AccessLists interface {
	// Lookup returns the index of our IP list; false if none.
	Lookup(ctx context.Context, name string) (id uint32, ok bool, err error)
	// Names returns the names of our IP lists by index.
	Names(ctx context.Context) (map[uint32]string, error)
}

var _ vswitch.ABFs = (*ABFs)(nil)

func New(vpp *session.Session, ifs *ownership.Registry, acls AccessLists) *ABFs {
	return &ABFs{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs, acls: acls}
}

// abfState is VPP's state.
type abfState struct {
	policies    map[uint32]abf.AbfPolicy
	attachments []abf.AbfItfAttach
}

func (v *ABFs) read(ctx context.Context) (*abfState, error) {
	policies := session.StartDump[abf.AbfPolicyDetails](ctx, v.vpp, module, &abf.AbfPolicyDump{})
	attachments := session.StartDump[abf.AbfItfAttachDetails](ctx, v.vpp, module, &abf.AbfItfAttachDump{})
	all, err := policies.Wait(ctx)
	attached, err2 := attachments.Wait(ctx)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	s := &abfState{policies: map[uint32]abf.AbfPolicy{}}
	for _, d := range all {
		s.policies[d.Policy.PolicyID] = d.Policy
	}
	for _, d := range attached {
		s.attachments = append(s.attachments, d.Attach)
	}
	return s, nil
}

func (s *abfState) attachedTo(policy uint32) (list []abf.AbfItfAttach) {
	for _, a := range s.attachments {
		if a.PolicyID == policy {
			list = append(list, a)
		}
	}
	return list
}

func (v *ABFs) Create(ctx context.Context, a *vpp_abf.ABF) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.set(ctx, a); err != nil {
		return fmt.Errorf("setting ABF %d: %w", a.GetIndex(), err)
	}
	return nil
}

func (v *ABFs) set(ctx context.Context, a *vpp_abf.ABF) error {
	paths, err := v.pathsOf(ctx, a)
	if err != nil {
		return err
	}
	list, ok, err := v.acls.Lookup(ctx, a.GetAclName())
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("no access list %q with IP rules", a.GetAclName())
	}
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	want := abf.AbfPolicy{PolicyID: a.GetIndex(), ACLIndex: list, Paths: paths}
	now, exists := state.policies[want.PolicyID]
	switch {
	case !exists:
		return v.send(ctx, policyRequest(want, true, want.Paths))
	case now.ACLIndex == want.ACLIndex:
		if reqs, ok := changePaths(want, now.Paths); ok {
			return v.send(ctx, reqs...)
		}
	}
	return v.replace(ctx, want, now, state.attachedTo(want.PolicyID))
}

func (v *ABFs) pathsOf(ctx context.Context, a *vpp_abf.ABF) (paths []fib_types.FibPath, err error) {
	if n := len(a.GetForwardingPaths()); n == 0 || n > 255 {
		return nil, vswitch.Unsupported("an ABF with %d forwarding_paths: VPP needs 1 to 255", n)
	}
	for _, p := range a.GetForwardingPaths() {
		if p.GetWeight() > 255 || p.GetPreference() > 255 {
			return nil, vswitch.Unsupported("weight %d and preference %d: VPP takes at most 255", p.GetWeight(), p.GetPreference())
		}
		out := convert.AnyInterface
		if name := p.GetInterfaceName(); name != "" {
			i, err := v.ifs.Index(ctx, name)
			if err != nil {
				return nil, err
			}
			out = uint32(i)
		}
		nextHop, err := convert.ParseAddr(p.GetNextHopIp())
		if err != nil {
			return nil, err
		}
		path := convert.PathVia(nextHop, out)
		path.Weight, path.Preference = uint8(max(p.GetWeight(), 1)), uint8(p.GetPreference())
		if p.GetDvr() {
			if out == convert.AnyInterface {
				return nil, vswitch.Unsupported("dvr without interface_name: packets are delivered on an interface")
			}
			path.Type, path.Nh = fib_types.FIB_API_PATH_TYPE_DVR, fib_types.FibPathNh{}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// abfPath identifies a path in VPP, without its weight.
type abfPath struct {
	nextHop netip.Addr
	iface   uint32
	dvr     bool
}

func abfPathOf(p fib_types.FibPath) abfPath {
	return abfPath{convert.NextHop(p), p.SwIfIndex, p.Type == fib_types.FIB_API_PATH_TYPE_DVR}
}

// changePaths adds new paths before it removes others, so that the policy always has one. Paths
// with changed weights are removed and added again. It returns false if the policy would have no
// path meanwhile.
func changePaths(want abf.AbfPolicy, now []fib_types.FibPath) (reqs []api.Message, ok bool) {
	find := func(list []fib_types.FibPath, p fib_types.FibPath) (fib_types.FibPath, bool) {
		i := slices.IndexFunc(list, func(o fib_types.FibPath) bool { return abfPathOf(o) == abfPathOf(p) })
		if i < 0 {
			return p, false
		}
		return list[i], true
	}
	var add, remove, again []fib_types.FibPath
	for _, p := range want.Paths {
		switch old, there := find(now, p); {
		case !there:
			add = append(add, p)
		case old.Weight != p.Weight || old.Preference != p.Preference:
			remove, again = append(remove, p), append(again, p)
		}
	}
	for _, p := range now {
		if _, wanted := find(want.Paths, p); !wanted {
			remove = append(remove, p)
		}
	}
	if len(remove) == len(now) && len(add) == 0 {
		return nil, false
	}
	for _, step := range []struct {
		add   bool
		paths []fib_types.FibPath
	}{{true, add}, {false, remove}, {true, again}} {
		if len(step.paths) > 0 {
			reqs = append(reqs, policyRequest(want, step.add, step.paths))
		}
	}
	return reqs, true
}

func policyRequest(p abf.AbfPolicy, add bool, paths []fib_types.FibPath) api.Message {
	return &abf.AbfPolicyAddDel{IsAdd: add, Policy: abf.AbfPolicy{PolicyID: p.PolicyID, ACLIndex: p.ACLIndex, Paths: paths}}
}

func attachRequest(a abf.AbfItfAttach, add bool) api.Message {
	return &abf.AbfItfAttachAddDel{IsAdd: add, Attach: a}
}

// replace recreates the policy and restores its attachments.
func (v *ABFs) replace(ctx context.Context, want, now abf.AbfPolicy, attached []abf.AbfItfAttach) error {
	if err := v.remove(ctx, now, attached); err != nil {
		return err
	}
	if err := v.send(ctx, policyRequest(want, true, want.Paths)); err != nil {
		return err
	}
	var reqs []api.Message
	for _, a := range attached {
		reqs = append(reqs, attachRequest(a, true))
	}
	return v.attach(ctx, reqs...)
}

// remove detaches a policy and removes all its paths, which deletes it.
func (v *ABFs) remove(ctx context.Context, p abf.AbfPolicy, attached []abf.AbfItfAttach) error {
	var reqs []api.Message
	for _, a := range attached {
		reqs = append(reqs, attachRequest(a, false))
	}
	if err := v.attach(ctx, reqs...); err != nil {
		return err
	}
	return v.send(ctx, policyRequest(p, false, p.Paths))
}

func (v *ABFs) send(ctx context.Context, reqs ...api.Message) error {
	_, errs := session.CallAll[abf.AbfPolicyAddDelReply](ctx, v.vpp, module, reqs)
	return session.FirstError(errs)
}

func (v *ABFs) attach(ctx context.Context, reqs ...api.Message) error {
	_, errs := session.CallAll[abf.AbfItfAttachAddDelReply](ctx, v.vpp, module, reqs)
	return session.FirstError(errs)
}

func (v *ABFs) Delete(ctx context.Context, a *vpp_abf.ABF) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	state, err := v.read(ctx)
	if err == nil {
		if now, ok := state.policies[a.GetIndex()]; ok {
			err = v.remove(ctx, now, state.attachedTo(a.GetIndex()))
		}
	}
	if err != nil {
		return fmt.Errorf("deleting ABF %d: %w", a.GetIndex(), err)
	}
	return nil
}

func (v *ABFs) Attach(ctx context.Context, index uint32, at *vpp_abf.ABF_AttachedInterface) error {
	if err := v.setAttached(ctx, index, at, true); err != nil {
		return fmt.Errorf("attaching ABF %d to interface %q: %w", index, at.GetInputInterface(), err)
	}
	return nil
}

func (v *ABFs) Detach(ctx context.Context, index uint32, at *vpp_abf.ABF_AttachedInterface) error {
	err := v.setAttached(ctx, index, at, false)
	if err != nil && !ownership.IsNoInterface(err) && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return fmt.Errorf("detaching ABF %d from interface %q: %w", index, at.GetInputInterface(), err)
	}
	return nil
}

func (v *ABFs) setAttached(ctx context.Context, policy uint32, at *vpp_abf.ABF_AttachedInterface, wanted bool) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	i, err := v.ifs.Index(ctx, at.GetInputInterface())
	if err != nil {
		return err
	}
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	if _, ok := state.policies[policy]; wanted && !ok {
		return errors.New("no such ABF")
	}
	want := abf.AbfItfAttach{PolicyID: policy, SwIfIndex: i, Priority: at.GetPriority(), IsIPv6: at.GetIsIpv6()}
	var reqs []api.Message
	for _, a := range state.attachedTo(policy) {
		switch {
		case a.SwIfIndex != i:
		case wanted && a == want:
			return nil
		default:
			reqs = append(reqs, attachRequest(a, false))
		}
	}
	if wanted {
		reqs = append(reqs, attachRequest(want, true))
	}
	return v.attach(ctx, reqs...)
}

func (v *ABFs) List(ctx context.Context, expected []*vpp_abf.ABF) ([]*vpp_abf.ABF, error) {
	list, err := v.list(ctx, expected)
	if err != nil {
		return nil, session.IgnoreUnsupported("listing ABFs", err)
	}
	return list, nil
}

func (v *ABFs) list(ctx context.Context, expected []*vpp_abf.ABF) ([]*vpp_abf.ABF, error) {
	state, err := v.read(ctx)
	if err != nil || len(state.policies) == 0 {
		return nil, err
	}
	lists, err := v.acls.Names(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[uint32]*vpp_abf.ABF{}
	for _, a := range expected {
		wanted[a.GetIndex()] = a
	}
	var list []*vpp_abf.ABF
	for _, p := range state.policies {
		name, ours := lists[p.ACLIndex]
		if !ours {
			continue
		}
		a := &vpp_abf.ABF{Index: p.PolicyID, AclName: name}
		for _, path := range p.Paths {
			described, err := v.describePath(ctx, path, wanted[p.PolicyID].GetForwardingPaths())
			if err != nil {
				return nil, err
			}
			a.ForwardingPaths = append(a.ForwardingPaths, described)
		}
		for _, at := range state.attachedTo(p.PolicyID) {
			name, err := v.ifs.AnyName(ctx, at.SwIfIndex)
			if err != nil {
				return nil, err
			}
			a.AttachedInterfaces = append(a.AttachedInterfaces, &vpp_abf.ABF_AttachedInterface{
				InputInterface: name, Priority: at.Priority, IsIpv6: at.IsIPv6,
			})
		}
		list = append(list, a)
	}
	return list, nil
}

// describePath: VPP stores no next hop of paths to the packets' own destinations.
func (v *ABFs) describePath(ctx context.Context, p fib_types.FibPath, expected []*vpp_abf.ABF_ForwardingPath) (*vpp_abf.ABF_ForwardingPath, error) {
	path := &vpp_abf.ABF_ForwardingPath{
		NextHopIp: convert.NextHop(p).String(), Weight: uint32(p.Weight), Preference: uint32(p.Preference),
		Dvr: p.Type == fib_types.FIB_API_PATH_TYPE_DVR,
	}
	var err error
	if p.SwIfIndex != convert.AnyInterface {
		path.InterfaceName, err = v.ifs.AnyName(ctx, ownership.Index(p.SwIfIndex))
	}
	for _, want := range expected {
		if path.Dvr && want.GetDvr() && want.GetInterfaceName() == path.InterfaceName {
			path.NextHopIp = want.GetNextHopIp()
		}
	}
	return path, err
}
