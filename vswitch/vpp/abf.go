package vpp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/abf"
	"go.fd.io/govpp/binapi/fib_types"
)

var abfModule = newModule("abf_plugin.so", "forwarding by access lists",
	&abf.AbfPolicyAddDel{}, &abf.AbfPolicyAddDelReply{}, &abf.AbfPolicyDump{}, &abf.AbfPolicyDetails{},
	&abf.AbfItfAttachAddDel{}, &abf.AbfItfAttachAddDelReply{}, &abf.AbfItfAttachDump{}, &abf.AbfItfAttachDetails{},
)

// abfs are VPP's ABF policies, of the same index. One is ours if its access list is.
// VPP believes what it is told of attachments: of a policy that is not there, or of the
// wrong IP version, it crashes. So what there is is read first, and abfMu is held.
type abfs struct{ *VSwitch }

func (v *VSwitch) ABFs() vswitch.ABFs { return abfs{v} }

// abfState is what VPP has.
type abfState struct {
	policies    map[uint32]abf.AbfPolicy
	attachments []abf.AbfItfAttach
}

func (v abfs) read(ctx context.Context) (*abfState, error) {
	policies := startDump[abf.AbfPolicyDetails](ctx, v.VSwitch, abfModule, &abf.AbfPolicyDump{})
	attachments := startDump[abf.AbfItfAttachDetails](ctx, v.VSwitch, abfModule, &abf.AbfItfAttachDump{})
	all, err := policies.wait(ctx)
	attached, err2 := attachments.wait(ctx)
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

func (v abfs) Create(ctx context.Context, a *vpp_abf.ABF) error {
	v.abfMu.Lock()
	defer v.abfMu.Unlock()
	if err := v.set(ctx, a); err != nil {
		return fmt.Errorf("setting ABF %d: %w", a.GetIndex(), err)
	}
	return nil
}

func (v abfs) set(ctx context.Context, a *vpp_abf.ABF) error {
	paths, err := v.pathsOf(ctx, a)
	if err != nil {
		return err
	}
	list, err := acls(v).find(ctx, aclKey{tag: v.aclIDs.tag(a.GetAclName())})
	if err != nil {
		return err
	}
	if list == noACL {
		return fmt.Errorf("there is no access list %q of IP rules", a.GetAclName())
	}
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	want := abf.AbfPolicy{PolicyID: a.GetIndex(), ACLIndex: list, Paths: paths}
	now, ok := state.policies[want.PolicyID]
	switch {
	case !ok:
		return v.send(ctx, policyRequest(want, true, want.Paths))
	case now.ACLIndex == want.ACLIndex:
		if reqs, ok := changePaths(want, now.Paths); ok {
			return v.send(ctx, reqs...)
		}
	}
	return v.replace(ctx, want, now, state.attachedTo(want.PolicyID))
}

func (v abfs) pathsOf(ctx context.Context, a *vpp_abf.ABF) (paths []fib_types.FibPath, err error) {
	if n := len(a.GetForwardingPaths()); n == 0 || n > 255 {
		return nil, vswitch.Unsupported("an ABF with %d forwarding_paths: VPP needs 1 to 255", n)
	}
	for _, p := range a.GetForwardingPaths() {
		if p.GetWeight() > 255 || p.GetPreference() > 255 {
			return nil, vswitch.Unsupported("weight %d and preference %d: VPP takes at most 255", p.GetWeight(), p.GetPreference())
		}
		out := noInterface
		if name := p.GetInterfaceName(); name != "" {
			i, err := v.ifs.index(ctx, name)
			if err != nil {
				return nil, err
			}
			out = uint32(i)
		}
		nextHop, err := parseAddr(p.GetNextHopIp())
		if err != nil {
			return nil, err
		}
		path := pathVia(nextHop, out)
		path.Weight, path.Preference = uint8(max(p.GetWeight(), 1)), uint8(p.GetPreference())
		if p.GetDvr() {
			if out == noInterface {
				return nil, vswitch.Unsupported("dvr without interface_name: packets are delivered on an interface")
			}
			path.Type, path.Nh = fib_types.FIB_API_PATH_TYPE_DVR, fib_types.FibPathNh{}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// abfPath is what tells two paths of VPP apart: others differ in their weights at most.
type abfPath struct {
	nextHop netip.Addr
	iface   uint32
	dvr     bool
}

func abfPathOf(p fib_types.FibPath) abfPath {
	return abfPath{nextHopOf(p), p.SwIfIndex, p.Type == fib_types.FIB_API_PATH_TYPE_DVR}
}

// changePaths adds new paths before it removes others, so that the policy always has one;
// paths with other weights are removed and added again. Not ok: that leaves none between.
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

// replace makes the policy anew, and attaches it as it was.
func (v abfs) replace(ctx context.Context, want, now abf.AbfPolicy, attached []abf.AbfItfAttach) error {
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

// remove takes a policy off interfaces, and then all its paths, which is the end of it.
func (v abfs) remove(ctx context.Context, p abf.AbfPolicy, attached []abf.AbfItfAttach) error {
	var reqs []api.Message
	for _, a := range attached {
		reqs = append(reqs, attachRequest(a, false))
	}
	if err := v.attach(ctx, reqs...); err != nil {
		return err
	}
	return v.send(ctx, policyRequest(p, false, p.Paths))
}

func (v abfs) send(ctx context.Context, reqs ...api.Message) error {
	_, errs := callAll[abf.AbfPolicyAddDelReply](ctx, v.VSwitch, abfModule, reqs)
	return firstError(errs)
}

func (v abfs) attach(ctx context.Context, reqs ...api.Message) error {
	_, errs := callAll[abf.AbfItfAttachAddDelReply](ctx, v.VSwitch, abfModule, reqs)
	return firstError(errs)
}

func (v abfs) Delete(ctx context.Context, a *vpp_abf.ABF) error {
	v.abfMu.Lock()
	defer v.abfMu.Unlock()
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

func (v abfs) Attach(ctx context.Context, index uint32, at *vpp_abf.ABF_AttachedInterface) error {
	if err := v.setAttached(ctx, index, at, true); err != nil {
		return fmt.Errorf("attaching ABF %d to interface %q: %w", index, at.GetInputInterface(), err)
	}
	return nil
}

func (v abfs) Detach(ctx context.Context, index uint32, at *vpp_abf.ABF_AttachedInterface) error {
	err := v.setAttached(ctx, index, at, false)
	if err != nil && !isNoInterface(err) && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return fmt.Errorf("detaching ABF %d from interface %q: %w", index, at.GetInputInterface(), err)
	}
	return nil
}

func (v abfs) setAttached(ctx context.Context, policy uint32, at *vpp_abf.ABF_AttachedInterface, wanted bool) error {
	v.abfMu.Lock()
	defer v.abfMu.Unlock()
	i, err := v.ifs.index(ctx, at.GetInputInterface())
	if err != nil {
		return err
	}
	state, err := v.read(ctx)
	if err != nil {
		return err
	}
	if _, ok := state.policies[policy]; wanted && !ok {
		return errors.New("there is no such ABF")
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

func (v abfs) List(ctx context.Context, expected []*vpp_abf.ABF) ([]*vpp_abf.ABF, error) {
	list, err := v.list(ctx, expected)
	if err != nil {
		return nil, ignoreUnsupported("listing ABFs", err)
	}
	return list, nil
}

func (v abfs) list(ctx context.Context, expected []*vpp_abf.ABF) ([]*vpp_abf.ABF, error) {
	state, err := v.read(ctx)
	if err != nil || len(state.policies) == 0 {
		return nil, err
	}
	if err := acls(v).learnACLs(ctx); err != nil {
		return nil, err
	}
	wanted := map[uint32]*vpp_abf.ABF{}
	for _, a := range expected {
		wanted[a.GetIndex()] = a
	}
	var list []*vpp_abf.ABF
	for _, p := range state.policies {
		tag, ours := v.aclIDs.own(false, p.ACLIndex)
		if !ours {
			continue
		}
		a := &vpp_abf.ABF{Index: p.PolicyID, AclName: v.aclIDs.name(tag)}
		for _, path := range p.Paths {
			described, err := v.describePath(ctx, path, wanted[p.PolicyID].GetForwardingPaths())
			if err != nil {
				return nil, err
			}
			a.ForwardingPaths = append(a.ForwardingPaths, described)
		}
		for _, at := range state.attachedTo(p.PolicyID) {
			name, err := v.ifaceName(ctx, at.SwIfIndex)
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

// describePath: VPP keeps no next hop of paths to packets' own destinations.
func (v abfs) describePath(ctx context.Context, p fib_types.FibPath, expected []*vpp_abf.ABF_ForwardingPath) (*vpp_abf.ABF_ForwardingPath, error) {
	path := &vpp_abf.ABF_ForwardingPath{
		NextHopIp: nextHopOf(p).String(), Weight: uint32(p.Weight), Preference: uint32(p.Preference),
		Dvr: p.Type == fib_types.FIB_API_PATH_TYPE_DVR,
	}
	var err error
	if p.SwIfIndex != noInterface {
		path.InterfaceName, err = v.ifaceName(ctx, index(p.SwIfIndex))
	}
	for _, want := range expected {
		if path.Dvr && want.GetDvr() && want.GetInterfaceName() == path.InterfaceName {
			path.NextHopIp = want.GetNextHopIp()
		}
	}
	return path, err
}

// ignoreUnsupported: of what VPP lacks there is nothing.
func ignoreUnsupported(doing string, err error) error {
	if err == nil || isUnsupported(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
