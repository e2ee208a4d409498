package policies

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// ErrNoTable is what NFT.Read returns, perhaps wrapped, for a table that does not exist.
var ErrNoTable = errors.New("no such table")

// NFT is the nftables of a network namespace.
type NFT interface {
	// Locked calls fn while nobody else of this process changes the ruleset.
	Locked(fn func() error) error
	// Run makes the commands of a script happen, all or none.
	Run(ctx context.Context, script string) error
	// Read returns a table as JSON, see libnftables-json(5).
	Read(ctx context.Context, family, table string) ([]byte, error)
	// Generation is another number after each change of the ruleset; not ok: unknown.
	Generation() (number uint32, ok bool)
}

// Driver implements vswitch.Filter.
type Driver struct {
	nft NFT

	mu   sync.Mutex
	want values
	// have is what the table holds at the generation; nil: to be read.
	have       *table
	generation uint32
	// stale are objects that were found, and that no value has asked for or disowned yet.
	stale map[string]bool
}

// New returns a driver; the table is made when it is needed.
func New(nft NFT) *Driver {
	return &Driver{nft: nft, want: newValues(), stale: map[string]bool{}}
}

// values are those that were set, by the part of their names that objects have.
type values struct {
	addresses map[string]*contiv_filter.AddressSet
	endpoints map[string]*contiv_filter.EndpointSet
	lists     map[string]*compiled
	subjects  map[string]*subject
	// at are the subjects that have an address, the last one set last.
	at map[netip.Addr][]*subject
}

func newValues() values {
	return values{map[string]*contiv_filter.AddressSet{}, map[string]*contiv_filter.EndpointSet{}, map[string]*compiled{},
		map[string]*subject{}, map[netip.Addr][]*subject{}}
}

// unknown starts the names of values that stand for objects which nobody expected.
const unknown = "?"

// Set implements vswitch.Filter.
func (d *Driver) Set(ctx context.Context, messages ...proto.Message) error {
	var lists []*compiled
	for _, m := range messages {
		if list, ok := m.(*contiv_filter.AccessList); ok {
			c, err := compile(list)
			if err != nil {
				return fmt.Errorf("access list %q: %w", list.GetName(), err)
			}
			lists = append(lists, c)
		}
	}
	return d.change(ctx, func(e *edit) {
		e.base()
		for _, m := range messages {
			switch v := m.(type) {
			case *contiv_filter.AddressSet:
				d.want.addresses[ident(v.GetName())] = v
				e.addressSet(ident(v.GetName()), v)
			case *contiv_filter.EndpointSet:
				d.want.endpoints[ident(v.GetName())] = v
				e.endpointSet(ident(v.GetName()), v)
			case *contiv_filter.Subject:
				e.subject(v)
			}
		}
		for _, c := range lists {
			d.want.lists[c.id] = c
			e.list(c)
		}
	})
}

// Remove implements vswitch.Filter.
func (d *Driver) Remove(ctx context.Context, messages ...proto.Message) error {
	return d.change(ctx, func(e *edit) {
		for _, m := range messages {
			switch v := m.(type) {
			case *contiv_filter.AddressSet:
				id := identOf(v.GetName())
				delete(d.want.addresses, id)
				e.addressSet(id, nil)
			case *contiv_filter.EndpointSet:
				id := identOf(v.GetName())
				delete(d.want.endpoints, id)
				e.endpointSet(id, nil)
			case *contiv_filter.AccessList:
				id := identOf(v.GetName())
				delete(d.want.lists, id)
				e.emptyList(id)
			case *contiv_filter.Subject:
				e.removeSubject(v.GetName())
			}
		}
	})
}

// List implements vswitch.Filter.
func (d *Driver) List(ctx context.Context, expected []proto.Message) (found []proto.Message, err error) {
	err = d.nft.Locked(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.load(ctx); err != nil {
			return err
		}
		for _, m := range expected {
			if d.have.intact && d.adopt(m) {
				found = append(found, m)
			}
		}
		found = append(found, d.unexpected(expected)...)
		return nil
	})
	return found, err
}

// Drop removes the table.
func (d *Driver) Drop(ctx context.Context) error {
	return d.change(ctx, func(e *edit) {
		d.want, d.stale = newValues(), map[string]bool{}
	})
}

// Keys returns the northbound keys of the values that were set.
func (d *Driver) Keys() (keys []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.want.addresses {
		keys = append(keys, models.Key(v))
	}
	for _, v := range d.want.endpoints {
		keys = append(keys, models.Key(v))
	}
	for _, c := range d.want.lists {
		keys = append(keys, models.Key(&contiv_filter.AccessList{Name: c.name}))
	}
	for name := range d.want.subjects {
		keys = append(keys, models.Key(&contiv_filter.Subject{Name: name}))
	}
	return keys
}

// load reads the table, unless nothing has changed since it was known.
func (d *Driver) load(ctx context.Context) error {
	before, known := d.nft.Generation()
	if d.have != nil && known && before == d.generation {
		return nil
	}
	first := d.have == nil && len(d.want.subjects)+len(d.want.lists)+len(d.want.addresses)+len(d.want.endpoints) == 0
	have, err := read(ctx, d.nft)
	if err != nil {
		return fmt.Errorf("reading nftables table inet %s: %w", tableName, err)
	}
	d.have, d.generation = have, before
	if first {
		d.stale = have.objects()
	}
	if after, ok := d.nft.Generation(); !known || !ok || after != before {
		d.generation = 0
	}
	return nil
}

// change makes what edit asks for, see the package documentation.
func (d *Driver) change(ctx context.Context, do func(*edit)) error {
	return d.nft.Locked(func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if err := d.load(ctx); err != nil {
			return err
		}
		e := &edit{d: d, have: d.have}
		do(e)
		e.sweep()
		generation := d.generation
		d.generation = 0 // until it is known how this ends
		for _, script := range e.scripts() {
			before := generation
			if err := d.nft.Run(ctx, script); err != nil {
				d.have = nil
				if script == e.clean.String() {
					return nil // what was asked for is done; the next change sweeps again
				}
				return err
			}
			var ok bool
			if generation, ok = d.nft.Generation(); !ok || before == 0 || generation != before+1 {
				generation = 0 // somebody else changed something, too
			}
		}
		d.generation = generation
		return nil
	})
}

// adopt takes over an expected value if the table has exactly that.
func (d *Driver) adopt(m proto.Message) bool {
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		id := ident(v.GetName())
		if !d.have.holds(addressElements(id, v)) {
			return false
		}
		d.want.addresses[id] = v
		d.known(setsOf(addressSet, id)...)
	case *contiv_filter.EndpointSet:
		id := ident(v.GetName())
		if !d.have.holds(endpointElements(id, v)) {
			return false
		}
		d.want.endpoints[id] = v
		d.known(setsOf(endpointSet, id)...)
	case *contiv_filter.AccessList:
		c, err := compile(v)
		if err != nil || !d.have.isList(c) {
			return false
		}
		d.want.lists[c.id] = c
		d.known(c.chain(), c.content())
	case *contiv_filter.Subject:
		s := newSubject(v)
		if !d.have.isSubject(s) {
			return false
		}
		d.want.put(s)
		for _, addr := range s.addrs {
			d.known(addr.String())
		}
		d.known(s.chains()...)
	}
	return true
}

// known takes objects off the list of those nobody asked for.
func (d *Driver) known(objects ...string) {
	for _, object := range objects {
		delete(d.stale, object)
	}
}

// unexpected returns values that stand for what is stale.
func (d *Driver) unexpected(expected []proto.Message) (found []proto.Message) {
	names := d.want.named()
	for _, m := range expected {
		switch v := m.(type) {
		case *contiv_filter.AddressSet:
			names[addressSet+"4-"+ident(v.GetName())], names[addressSet+"6-"+ident(v.GetName())] = true, true
		case *contiv_filter.EndpointSet:
			names[endpointSet+"4-"+ident(v.GetName())], names[endpointSet+"6-"+ident(v.GetName())] = true, true
		case *contiv_filter.AccessList:
			names[listChain+ident(v.GetName())] = true
		case *contiv_filter.Subject:
			for _, addr := range filter.ParseAddrs(v.GetAddresses()) {
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
		case strings.HasPrefix(object, addressSet+"4-"):
			value = &contiv_filter.AddressSet{Name: unknown + object[len(addressSet)+2:]}
		case strings.HasPrefix(object, endpointSet+"4-"):
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
