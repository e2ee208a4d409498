package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// NFT gives access to the nftables of a network namespace. *nft.Conn implements it.
type NFT interface {
	// Locked calls fn while no other part of this process changes the ruleset.
	Locked(fn func() error) error
	// Commit executes a transaction atomically.
	Commit(...*nft.Batch) error
	// ReadTable returns a table, or nil if it does not exist, and the ruleset generation (0:
	// unknown).
	ReadTable(family byte, table string) (*nft.Table, uint32, error)
	// Packets returns the counters of a set's elements.
	Packets(family byte, table, set string) (map[string]uint64, error)
	// Unchanged reports whether a table is unchanged since a generation, and the current generation.
	Unchanged(table string, since uint32) (now uint32, ok bool)
	// Foreign reports whether another party changed one of the tables.
	Foreign(changes []nft.Change, tables ...string) (by string, foreign bool)
}

// ClearMarks clears the mask's bits in the marks of connections with stale marks, in one network
// namespace.
type ClearMarks func(mask uint32, stale func(mark uint32) bool) error

// Driver implements vswitch.Filter.
type Driver struct {
	nft   NFT
	marks ClearMarks
	log   *slog.Logger

	mu   sync.Mutex
	want values
	// have is the content of the table at the generation; nil: unknown.
	have       *table
	generation uint32
	// judged is the last generation of verdicts; 0: unknown. It outlives a table that another party
	// removes, because connection marks do.
	judged int
	// stale holds objects found in the table that no value has claimed or disowned yet.
	stale    map[string]bool
	unions   *unions
	limits   limits
	sweepAll bool
}

// New returns a driver. It creates the table when needed.
func New(nft NFT, marks ClearMarks, log *slog.Logger) *Driver {
	return &Driver{nft: nft, marks: marks, log: log, want: newValues(), stale: map[string]bool{}, unions: newUnions(), limits: usualLimits}
}

// unknown starts the names of values that represent unexpected objects.
const unknown = "?"

// Set implements vswitch.Filter.
func (d *Driver) Set(ctx context.Context, values ...proto.Message) error {
	return d.Change(ctx, values, nil)
}

// Remove implements vswitch.Filter.
func (d *Driver) Remove(ctx context.Context, values ...proto.Message) error {
	return d.Change(ctx, nil, values)
}

// Change implements vswitch.Filter.
func (d *Driver) Change(_ context.Context, set, remove []proto.Message) error {
	return d.change(true, func(e *edit) {
		if len(set) > 0 {
			e.base()
		}
		d.cover(e, set)
		// Subjects last: their rules depend on the other values.
		for _, subjects := range []bool{false, true} {
			for _, m := range set {
				if isSubject(m) == subjects {
					d.set(e, m)
				}
			}
			for _, m := range remove {
				if isSubject(m) == subjects {
					d.remove(e, m)
				}
			}
			e.follow()
		}
		e.rewrite()
	})
}

func isSubject(m proto.Message) bool {
	_, ok := m.(*contiv_filter.Subject)
	return ok
}

func (d *Driver) cover(e *edit, set []proto.Message) {
	versions := d.want.versions
	for _, m := range set {
		if v, ok := m.(*contiv_filter.Subject); ok {
			versions = versions.with(policyrules.ParseAddrs(v.GetAddresses())...)
		}
	}
	if versions == d.want.versions {
		return
	}
	d.want.widen(versions)
	for id, v := range d.want.addresses {
		e.addressSet(id, v)
	}
	for id, v := range d.want.endpoints {
		e.endpointSet(id, v)
	}
	e.all = true
}

func (d *Driver) set(e *edit, m proto.Message) {
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		d.want.setAddresses(setIdent(v.GetName()), v)
		e.addressSet(setIdent(v.GetName()), v)
	case *contiv_filter.EndpointSet:
		d.want.setEndpoints(setIdent(v.GetName()), v)
		e.endpointSet(setIdent(v.GetName()), v)
	case *contiv_filter.Subject:
		e.subject(v)
	case *contiv_filter.AccessList:
		l := newList(v)
		for _, direction := range directions {
			if id := listIdent(direction, v.GetName()); id != l.id && d.want.lists[id] != nil {
				d.want.setList(id, nil)
				e.lists[id] = true
				e.emptyList(id)
			}
		}
		d.want.setList(l.id, l)
		e.lists[l.id] = true
		e.claimList(l.id)
	}
}

var directions = []contiv_filter.AccessList_Direction{contiv_filter.AccessList_INGRESS, contiv_filter.AccessList_EGRESS}

func (d *Driver) remove(e *edit, m proto.Message) {
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		id := identOf(v.GetName(), setIdent)
		d.want.setAddresses(id, nil)
		e.addressSet(id, nil)
	case *contiv_filter.EndpointSet:
		id := identOf(v.GetName(), setIdent)
		d.want.setEndpoints(id, nil)
		e.endpointSet(id, nil)
	case *contiv_filter.AccessList:
		for _, direction := range directions {
			id := listIdent(direction, v.GetName())
			d.want.setList(id, nil)
			e.lists[id] = true
			e.emptyList(id)
		}
	case *contiv_filter.Subject:
		e.removeSubject(v.GetName())
	}
}

// List implements vswitch.Filter.
func (d *Driver) List(ctx context.Context, expected []proto.Message) (found []proto.Message, err error) {
	err = d.nft.Locked(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.load(); err != nil {
			return err
		}
		for _, subjects := range []bool{false, true} {
			writer := newWriter(d)
			for _, m := range expected {
				switch {
				case !d.have.intact || isSubject(m) != subjects:
				case d.adopt(m, writer):
					found = append(found, m)
				default:
					d.want.forget(m) // set again, or never removed
				}
			}
		}
		found = append(found, d.unexpected(expected)...)
		return nil
	})
	return found, err
}

// Drop removes the table.
func (d *Driver) Drop(ctx context.Context) error {
	return d.change(false, func(e *edit) {
		d.want, d.stale = newValues(), map[string]bool{}
		e.drop()
	})
}

// Keys returns the northbound keys of the configured values.
func (d *Driver) Keys() (keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.want.addresses {
		keys = append(keys, models.Key(v))
	}
	for _, v := range d.want.endpoints {
		keys = append(keys, models.Key(v))
	}
	for _, l := range d.want.lists {
		keys = append(keys, models.Key(l.list))
	}
	for name := range d.want.subjects {
		keys = append(keys, models.Key(&contiv_filter.Subject{Name: name}))
	}
	return keys
}

func (d *Driver) load() error {
	if now, ok := d.nft.Unchanged(qualifiedName, d.generation); ok && d.have != nil {
		d.generation = now
		return nil
	}
	first := d.have == nil && len(d.want.subjects)+len(d.want.lists)+len(d.want.addresses)+len(d.want.endpoints) == 0
	found, generation, err := d.nft.ReadTable(unix.NFPROTO_INET, tableName)
	if err != nil {
		return fmt.Errorf("reading nftables table inet %s: %w", tableName, supported(err))
	}
	d.have, d.generation, d.sweepAll, d.unions = tableOf(found), generation, true, newUnions()
	if first {
		d.stale, d.want.versions = d.have.objects(), d.have.versions()
	}
	return nil
}

// begin determines the current generation. If it is unknown, it clears all marks.
func (d *Driver) begin() error {
	if d.judged != 0 {
		return nil
	}
	if err := d.clearMarks(d.have.generation); err != nil {
		return err
	}
	d.judged = max(d.have.generation, 1)
	return nil
}

// judgeAnew starts a generation, and clears the marks of recurring ones.
func (d *Driver) judgeAnew() error {
	generation := next(d.judged)
	if upperHalf(generation) != upperHalf(d.judged) {
		if err := d.clearMarks(d.judged); err != nil {
			return err
		}
	}
	d.judged = generation
	return nil
}

// clearMarks clears the marks of future generations. Otherwise a connection that was idle since the
// same generation number was last used would pass.
func (d *Driver) clearMarks(generation int) error {
	err := d.marks(markMask, func(mark uint32) bool {
		marked := int(mark & markMask >> markShift)
		return marked != 0 && !comesBefore(marked, generation)
	})
	if err != nil {
		return fmt.Errorf("preparing connections for policies: %w", err)
	}
	return nil
}

// change applies edit as the package documentation describes. judges: connections are judged again
// afterwards.
func (d *Driver) change(judges bool, do func(*edit)) error {
	return d.nft.Locked(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.load(); err != nil {
			return err
		}
		if judges {
			if err := d.begin(); err != nil {
				return err
			}
		}
		e, before := newEdit(d), d.want.clone()
		do(e)
		e.sweep()
		transactions, err := e.transactions()
		if err != nil {
			d.have, d.generation, d.want = nil, 0, before
			return err
		}
		generation := d.generation
		for _, b := range transactions {
			if err := d.nft.Commit(b); err != nil {
				d.have, d.generation = nil, 0
				if b == &e.clean {
					d.log.Warn("Removing unused nftables objects failed; the next change of a policy retries", "table", qualifiedName, "error", err)
					return nil
				}
				d.want = before // the caller knows that the change failed
				return supported(err)
			}
			if generation != 0 {
				generation++
			}
		}
		d.generation = generation
		return nil
	})
}

// supported wraps the errors of kernels without a required feature.
func supported(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EAFNOSUPPORT) {
		return vswitch.Unsupported("policies: this Linux kernel lacks a part of nftables (tables inet, verdict maps, concatenations, conntrack): %v", err)
	}
	return err
}

// Notice ignores rtnetlink, which has no events about policies.
func (*Driver) Notice(syscall.NetlinkMessage, func(drift.Notice)) {}

// Check reports the values if another party changed the table.
func (d *Driver) Check(b *drift.Batch) {
	if by, foreign := d.nft.Foreign(drift.Suspects[nft.Change](b), qualifiedName); foreign {
		b.Report(fmt.Sprintf("nftables table %q was changed%s", tableName, by), d.Keys()...)
	}
}

// adopt adopts an expected value if the table contains exactly its objects. A list exists if its
// subjects do.
func (d *Driver) adopt(m proto.Message, writer *stageWriter) bool {
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		id := setIdent(v.GetName())
		if !d.have.holds(addressElements(id, v, d.want.versions)) {
			return false
		}
		d.want.setAddresses(id, v)
		d.known(setsOf(addressSet, id)...)
	case *contiv_filter.EndpointSet:
		id := setIdent(v.GetName())
		if !d.have.holds(endpointElements(id, v, d.want.versions)) {
			return false
		}
		d.want.setEndpoints(id, v)
		d.known(setsOf(endpointSet, id)...)
	case *contiv_filter.AccessList:
		l := newList(v)
		if len(d.have.chains[l.chain()]) > 0 {
			p := l.compile(d.want.versions)
			if !d.have.isList(p) {
				return false
			}
			d.known(p.chain, p.content)
		}
		d.want.setList(l.id, l)
	case *contiv_filter.Subject:
		s := writer.subject(v)
		if d.want.versions.with(s.addrs...) != d.want.versions || !d.have.isSubject(s, d.want) {
			return false
		}
		d.want.keep(s)
		for _, addr := range s.addrs {
			d.known(addr.String())
		}
		d.known(s.chains()...)
		for _, u := range slices.Concat(s.in.unions, s.out.unions) {
			if d.unions.byName[u.name] == nil {
				d.unions.add(u)
			}
		}
	}
	return true
}

// known removes objects from stale.
func (d *Driver) known(objects ...string) {
	for _, object := range objects {
		delete(d.stale, object)
	}
}

// unexpected returns values that represent stale objects.
func (d *Driver) unexpected(expected []proto.Message) (found []proto.Message) {
	names := d.want.named()
	for _, m := range expected {
		switch v := m.(type) {
		case *contiv_filter.AddressSet:
			names[addressSet+"4-"+setIdent(v.GetName())], names[addressSet+"6-"+setIdent(v.GetName())] = true, true
		case *contiv_filter.EndpointSet:
			names[endpointSet+"4-"+setIdent(v.GetName())], names[endpointSet+"6-"+setIdent(v.GetName())] = true, true
		case *contiv_filter.AccessList:
			names[listChain+listIdent(v.GetDirection(), v.GetName())] = true
		case *contiv_filter.Subject:
			for _, addr := range policyrules.ParseAddrs(v.GetAddresses()) {
				names[addr.String()] = true
			}
		}
	}
	for object := range d.stale {
		if names[object] {
			continue
		}
		var value proto.Message
		switch {
		case strings.HasPrefix(object, addressSet+"4-"), strings.HasPrefix(object, addressSet+"6-") && !d.stale[twin(object)]:
			value = &contiv_filter.AddressSet{Name: unknown + object[len(addressSet)+2:]}
		case strings.HasPrefix(object, endpointSet+"4-"), strings.HasPrefix(object, endpointSet+"6-") && !d.stale[twin(object)]:
			value = &contiv_filter.EndpointSet{Name: unknown + object[len(endpointSet)+2:]}
		case strings.HasPrefix(object, listChain):
			value = &contiv_filter.AccessList{Name: unknown + object[len(listChain):]}
		default:
			if _, err := netip.ParseAddr(object); err != nil {
				continue
			}
			value = &contiv_filter.Subject{Name: unknown + object, Addresses: []string{object}}
		}
		if models.Key(value) != "" {
			found = append(found, value)
		}
	}
	return found
}
