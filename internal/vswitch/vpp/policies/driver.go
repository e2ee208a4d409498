package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/binapi/acl_types"
	"google.golang.org/protobuf/proto"
)

// Lists are VPP's access lists for policies, by names.
type Lists interface {
	// PutPolicy creates a list or replaces its rules atomically.
	PutPolicy(ctx context.Context, name string, rules []acl_types.ACLRule) error
	// DeletePolicy removes a list from all interfaces and deletes it.
	DeletePolicy(ctx context.Context, name string) error
	// BindPolicies sets an interface's policy lists, in order and before all others, for packets
	// entering VPP and for packets leaving VPP.
	BindPolicies(ctx context.Context, iface ownership.Index, in, out []string) error
	// PolicyMatches returns the match counts of each rule since it was set, by list name.
	PolicyMatches(ctx context.Context) (map[string][]uint64, error)
	// Policies reads the lists and the policy lists of interfaces, for entering and for leaving
	// packets.
	Policies(ctx context.Context) (lists map[string][]acl_types.ACLRule, bound map[ownership.Index][2][]string, err error)
}

// Driver implements vswitch.Filter. It is safe for concurrent use.
type Driver struct {
	subsystem.Base
	acls    Lists
	ifs     *ownership.Registry
	capture Capture

	mu   sync.Mutex
	want *values
	// have caches the rules of VPP's lists.
	have   map[string][]acl_types.ACLRule
	denied counts
	recent recent
}

// list is the rules of a list.
type list struct {
	rules []acl_types.ACLRule
	// denials describes the denying rules.
	denials []denial
}

var _ vswitch.Filter = (*Driver)(nil)

// New returns a driver that programs lists with acls and observes denied packets with capture.
func New(acls Lists, ifs *ownership.Registry, capture Capture) *Driver {
	return &Driver{acls: acls, ifs: ifs, capture: capture, want: newValues(), have: map[string][]acl_types.ACLRule{}, denied: newCounts()}
}

// Opened discards the state of the previous VPP.
func (d *Driver) Opened(context.Context, *session.Link) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.have)
	d.denied = newCounts()
	return nil
}

// Names of lists: each subject has one for packets entering VPP and one for leaving packets.
const (
	headList = "head"
	restList = "rest"
	inList   = "in/"
	outList  = "out/"
	// unknown starts the names of subjects known only by their hash.
	unknown = "?"
)

// id returns the hash of a subject's name in list names.
func id(name string) string {
	if hash, ok := strings.CutPrefix(name, unknown); ok {
		return hash
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:10])
}

// Set implements vswitch.Filter.
func (d *Driver) Set(ctx context.Context, values ...proto.Message) error {
	return d.Change(ctx, values, nil)
}

// Remove implements vswitch.Filter.
func (d *Driver) Remove(ctx context.Context, values ...proto.Message) error {
	return d.Change(ctx, nil, values)
}

// Change implements vswitch.Filter. The lists of a subject are replaced atomically; subjects are
// updated one after the other.
func (d *Driver) Change(ctx context.Context, set, remove []proto.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.want
	d.want = before.clone()
	changed := map[string]bool{}
	for _, m := range set {
		if s, ok := m.(*contiv_filter.Subject); ok && s.GetInterface() == "" {
			d.want = before
			return vswitch.Unsupported("subject %q: VPP filters connections at interfaces: name the pod's interface", s.GetName())
		}
		d.want.set(m)
		changed[models.Key(m)] = true
	}
	for _, m := range remove {
		d.want.remove(m)
		changed[models.Key(m)] = true
	}
	if err := d.apply(ctx, before, changed, remove); err != nil {
		d.want = before // the caller knows that it failed
		return err
	}
	return nil
}

func (d *Driver) apply(ctx context.Context, before *values, changed map[string]bool, remove []proto.Message) error {
	interfaces := map[string]bool{}
	matched := d.matched(ctx)
	for _, name := range slices.Sorted(maps.Keys(d.want.subjects)) {
		s := d.want.subjects[name]
		if !d.want.concerned(s, changed) {
			continue
		}
		if err := d.program(ctx, s, matched); err != nil {
			return fmt.Errorf("policies of %s: %w", name, err)
		}
		if changed[models.Key(s)] {
			for _, iface := range slices.Concat(interfacesOf(s), interfacesOf(before.subjects[name])) {
				interfaces[iface] = true
			}
		}
	}
	gone := []string{}
	for _, m := range remove {
		s, ok := m.(*contiv_filter.Subject)
		if !ok || d.want.subjects[s.GetName()] != nil {
			continue
		}
		for _, iface := range interfacesOf(before.subjects[s.GetName()]) {
			interfaces[iface] = true
		}
		gone = append(gone, inList+id(s.GetName()), outList+id(s.GetName()))
	}
	delete(interfaces, "")
	for _, name := range slices.Sorted(maps.Keys(interfaces)) {
		if err := d.bind(ctx, name); err != nil {
			return fmt.Errorf("policies of interface %s: %w", name, err)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if len(d.want.subjects) == 0 {
		gone = append(gone, headList, restList)
	}
	for _, name := range gone {
		if err := d.acls.DeletePolicy(ctx, name); err != nil {
			return fmt.Errorf("removing list %s: %w", name, err)
		}
		delete(d.have, name)
	}
	d.denied.forget(d.want, gone)
	return nil
}

// program sets the lists of a subject in VPP. matched returns the rules' counts so far.
func (d *Driver) program(ctx context.Context, s *contiv_filter.Subject, matched func() map[string][]uint64) error {
	lists, err := d.lists(s)
	if err != nil {
		return err
	}
	for _, tag := range slices.Sorted(maps.Keys(lists)) {
		if have, ok := d.have[tag]; ok && slices.Equal(have, lists[tag].rules) {
			d.denied.set(tag, lists[tag].denials)
			continue
		}
		delete(d.have, tag)
		counted := d.denied.of(tag, matched)
		if err := d.acls.PutPolicy(ctx, tag, lists[tag].rules); err != nil {
			return err
		}
		d.have[tag] = lists[tag].rules
		d.denied.replaced(tag, counted, lists[tag].denials)
	}
	return nil
}

// lists returns the lists of a subject by name. Packets leaving VPP at the interface enter the pod.
func (d *Driver) lists(s *contiv_filter.Subject) (map[string]list, error) {
	egress, err := expand(d.want, s, contiv_filter.AccessList_EGRESS)
	if err != nil {
		return nil, err
	}
	ingress, err := expand(d.want, s, contiv_filter.AccessList_INGRESS)
	if err != nil {
		return nil, err
	}
	return map[string]list{headList: {rules: head()}, restList: {rules: rest()}, inList + id(s.GetName()): egress, outList + id(s.GetName()): ingress}, nil
}

// interfacesOf returns all interfaces of a subject; none for nil.
func interfacesOf(s *contiv_filter.Subject) []string {
	if s == nil {
		return nil
	}
	return append([]string{s.GetInterface()}, s.GetMoreInterfaces()...)
}

// sequence returns the lists of an interface.
func (d *Driver) sequence(iface string) (in, out []string) {
	var names []string
	for name, s := range d.want.subjects {
		if slices.Contains(interfacesOf(s), iface) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	in, out = []string{headList}, []string{headList}
	for _, name := range names {
		in, out = append(in, inList+id(name)), append(out, outList+id(name))
	}
	return append(in, restList), append(out, restList)
}

// bind sets the lists of an interface, if it exists.
func (d *Driver) bind(ctx context.Context, iface string) error {
	i, ok, err := d.ifs.Known(ctx, iface)
	if err != nil || !ok {
		return err
	}
	in, out := d.sequence(iface)
	return d.acls.BindPolicies(ctx, i, in, out)
}

// InterfaceCreated sets the lists of a new interface before it has an address in VPP.
func (d *Driver) InterfaceCreated(ctx context.Context, i ownership.Index) error {
	iface := d.ifs.Seen(i)
	d.mu.Lock()
	defer d.mu.Unlock()
	in, out := d.sequence(iface)
	if len(in) == 0 {
		return nil
	}
	matched := d.matched(ctx)
	for _, subject := range d.want.subjects {
		if !slices.Contains(interfacesOf(subject), iface) {
			continue
		}
		if err := d.program(ctx, subject, matched); err != nil {
			return fmt.Errorf("its policies: %w", err)
		}
	}
	if err := d.acls.BindPolicies(ctx, i, in, out); err != nil {
		return fmt.Errorf("its policies: %w", err)
	}
	return nil
}

// List implements vswitch.Filter.
func (d *Driver) List(ctx context.Context, expected []proto.Message) (found []proto.Message, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range expected {
		if _, isSubject := m.(*contiv_filter.Subject); isSubject {
			continue
		}
		if _, known := d.want.all[models.Key(m)]; !known {
			d.want.set(m)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.want.all)) {
		if _, isSubject := d.want.all[key].(*contiv_filter.Subject); !isSubject && d.want.all[key] != nil {
			found = append(found, d.want.all[key])
		}
	}
	subjects, err := d.listSubjects(ctx, expected)
	if err != nil {
		return nil, fmt.Errorf("reading access lists: %w", err)
	}
	return append(found, subjects...), nil
}

func (d *Driver) listSubjects(ctx context.Context, expected []proto.Message) (found []proto.Message, err error) {
	lists, bound, err := d.acls.Policies(ctx)
	if err != nil {
		return nil, err
	}
	d.have = lists
	known := maps.Clone(d.want.subjects)
	for _, m := range expected {
		if s, ok := m.(*contiv_filter.Subject); ok {
			if _, ok := d.want.all[models.Key(s)]; !ok && s.GetInterface() != "" && (lists[inList+id(s.GetName())] != nil || lists[outList+id(s.GetName())] != nil) {
				known[s.GetName()] = s
				d.want.set(s)
			}
		}
	}
	accounted := map[string]bool{headList: true, restList: true}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s := known[name]
		accounted[inList+id(name)], accounted[outList+id(name)] = true, true
		intact, err := d.isIntact(ctx, s, lists, bound)
		switch {
		case err != nil:
			return nil, err
		case intact:
			found = append(found, s)
		default: // exists partly and needs an update
			found = append(found, &contiv_filter.Subject{Name: name})
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(lists)) {
		hash, isIn := strings.CutPrefix(tag, inList)
		if !isIn {
			hash = strings.TrimPrefix(tag, outList)
		}
		if !accounted[tag] && !accounted[hash] {
			accounted[hash] = true
			found = append(found, &contiv_filter.Subject{Name: unknown + hash})
		}
	}
	return found, nil
}

// isIntact reports whether VPP has exactly the lists of a subject on its interfaces.
func (d *Driver) isIntact(ctx context.Context, s *contiv_filter.Subject, lists map[string][]acl_types.ACLRule, bound map[ownership.Index][2][]string) (bool, error) {
	want, err := d.lists(s)
	if err != nil {
		return false, nil
	}
	for tag, list := range want {
		if have, ok := lists[tag]; !ok || !slices.Equal(have, list.rules) {
			return false, nil
		}
		d.denied.set(tag, list.denials)
	}
	for _, iface := range interfacesOf(s) {
		i, exists, err := d.ifs.Known(ctx, iface)
		if err != nil {
			return false, err
		}
		in, out := d.sequence(iface)
		if exists && (!slices.Equal(bound[i][0], in) || !slices.Equal(bound[i][1], out)) {
			return false, nil
		}
	}
	return true, nil
}
