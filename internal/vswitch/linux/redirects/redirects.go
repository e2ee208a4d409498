package redirects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

// Descriptor is the name of the descriptor of redirects.
const Descriptor = "contiv-host-redirect"

type (
	redirect = contiv_nat.HostRedirect
	item     = kvscheduler.Item[*redirect, kvscheduler.NoMetadata]
)

// errFlowTaken reports that two values redirect the same flow.
var errFlowTaken = errors.New("another value redirects it: take it out of one of them")

// Redirects manages the redirects in the agent's network namespace.
type Redirects struct {
	own    *namespaces.Namespace
	needed func()
	// endFlows deletes conntrack entries.
	endFlows func(conntrack.Stale) error

	// conn is locked while the fields below are used.
	conn   *nft.Conn
	tables []*table
	wanted map[string]*redirect // by key
	// stale holds conntrack entries that are still to be deleted.
	stale conntrack.Stale
}

// New connects to the nftables of a namespace, which must stay open until Close. It calls needed
// when the first redirect needs watching.
func New(own *namespaces.Namespace, needed func()) (*Redirects, error) {
	conn, err := nft.Open(&namespace.Namespace{Handle: own.Handle()})
	if err != nil {
		return nil, err
	}
	return withKernel(own, conn, needed), nil
}

func withKernel(own *namespaces.Namespace, conn *nft.Conn, needed func()) *Redirects {
	return &Redirects{
		own: own, needed: needed, conn: conn, tables: []*table{{family: ipv4}, {family: ipv6}}, wanted: map[string]*redirect{}, stale: conntrack.Stale{},
		endFlows: func(stale conntrack.Stale) error { return stale.Forget(own.Handle()) },
	}
}

func (r *Redirects) Close() { r.conn.Release() }

// Descriptor returns the descriptor of config/contiv/nat/v1/host-redirect/.
func (r *Redirects) Descriptor() kvscheduler.Descriptor[*redirect, kvscheduler.NoMetadata] {
	var none kvscheduler.NoMetadata
	return kvscheduler.Descriptor[*redirect, kvscheduler.NoMetadata]{
		Name:     Descriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.HostRedirect.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v *redirect) error { return validate(v) },
		Equivalent: func(_ string, old, new *redirect) bool {
			return slices.Equal(entriesOf(old), entriesOf(new))
		},
		Releases: func(_ string, old, new *redirect) bool {
			kept := map[flow]bool{}
			for _, e := range entriesOf(new) {
				kept[e.flow] = true
			}
			return slices.ContainsFunc(entriesOf(old), func(e entry) bool { return !kept[e.flow] })
		},
		Create: func(_ context.Context, key string, v *redirect) (kvscheduler.NoMetadata, error) {
			return none, r.set([]item{{Key: key, Value: v}})[0]
		},
		Update: func(_ context.Context, key string, _, v *redirect, _ kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
			return none, r.set([]item{{Key: key, Value: v}})[0]
		},
		Delete: func(_ context.Context, key string, v *redirect, _ kvscheduler.NoMetadata) error {
			return r.remove([]item{{Key: key, Value: v}})[0]
		},
		CreateBatch: func(_ context.Context, items []item) ([]kvscheduler.NoMetadata, []error) {
			return make([]kvscheduler.NoMetadata, len(items)), r.set(items)
		},
		DeleteBatch: func(_ context.Context, items []item) []error { return r.remove(items) },
		Retrieve:    func(context.Context, []item) ([]item, error) { return r.list() },
	}
}

var labelText = regexp.MustCompile(`^[A-Za-z0-9_./:~-]{1,127}$`) // comments of nftables have at most 128 bytes

func validate(v *redirect) error {
	if !labelText.MatchString(v.GetLabel()) {
		return kvscheduler.NewInvalidValueError(fmt.Errorf("%q is no label: use 1 to 127 letters, digits and any of -_./:~ in it", v.GetLabel()), "label")
	}
	seen := map[netip.AddrPort]map[contiv_nat.DNat66_Protocol]bool{}
	for _, f := range v.GetFrontends() {
		var addrs [3]netip.Addr
		for i, text := range []string{f.GetAddress(), f.GetToAddress(), f.GetSourceAddress()} {
			addr, err := netip.ParseAddr(text)
			switch {
			case err != nil || addr.Zone() != "" || addr.IsUnspecified():
				return kvscheduler.NewInvalidValueError(fmt.Errorf("%q is no address", text), "frontends")
			case addr.Unmap().Is6() != addrs[0].Is6() && i > 0:
				return kvscheduler.NewInvalidValueError(fmt.Errorf("%s and %s are of different IP versions", addrs[0], addr), "frontends")
			}
			addrs[i] = addr.Unmap()
		}
		if f.GetPort() == 0 || f.GetPort() > 65535 {
			return kvscheduler.NewInvalidValueError(fmt.Errorf("%d is no port: use 1 to 65535", f.GetPort()), "frontends")
		}
		if f.GetToPort() > 65535 {
			return kvscheduler.NewInvalidValueError(fmt.Errorf("%d is no port to send to: use 1 to 65535, or 0 for the same", f.GetToPort()), "frontends")
		}
		at := netip.AddrPortFrom(addrs[0], uint16(f.GetPort()))
		if seen[at][f.GetProtocol()] {
			return kvscheduler.NewInvalidValueError(fmt.Errorf("%v of %s is there twice: leave it out once", f.GetProtocol(), at), "frontends")
		}
		if seen[at] == nil {
			seen[at] = map[contiv_nat.DNat66_Protocol]bool{}
		}
		seen[at][f.GetProtocol()] = true
	}
	return nil
}

// set replaces the values of the given labels. A value that requests a flow of another value gets
// the rest, so that values of one transaction can exchange flows.
func (r *Redirects) set(items []item) []error {
	r.needed()
	changes := make([]change, len(items))
	for i, it := range items {
		changes[i] = change{it.Value.GetLabel(), entriesOf(it.Value)}
	}
	if err := r.forward(changes); err != nil {
		return slices.Repeat([]error{err}, len(items))
	}
	errs := r.change(changes, func() {
		for _, it := range items {
			r.wanted[it.Key] = it.Value
		}
	})
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("redirecting %q: %w", changes[i].label, err)
		}
	}
	return errs
}

func (r *Redirects) remove(items []item) []error {
	changes := make([]change, len(items))
	for i, it := range items {
		changes[i].label = it.Value.GetLabel()
	}
	errs := r.change(changes, func() {
		for _, it := range items {
			delete(r.wanted, it.Key)
		}
	})
	for i, err := range errs {
		if isUnsupported(err) {
			errs[i] = nil
		} else if err != nil {
			errs[i] = fmt.Errorf("ending redirect %q: %w", changes[i].label, err)
		}
	}
	return errs
}

// forward enables forwarding on the host.
func (r *Redirects) forward(changes []change) error {
	var has4, has6 bool
	for _, c := range changes {
		for _, e := range c.entries {
			has4, has6 = has4 || e.at.Addr().Is4(), has6 || e.at.Addr().Is6()
		}
	}
	return r.own.Enter(func() error {
		if has4 {
			if err := namespace.EnsureSysctl("ipv4/ip_forward", "1"); err != nil {
				return fmt.Errorf("enabling IP forwarding: %w", err)
			}
		}
		if has6 {
			if err := namespace.ForwardIPv6(); err != nil {
				return fmt.Errorf("enabling IPv6 forwarding: %w", err)
			}
		}
		return nil
	})
}

// change applies changes in one transaction. If that fails, it applies them one by one to find the
// invalid ones. It returns an error for each.
func (r *Redirects) change(changes []change, note func()) []error {
	errs := make([]error, len(changes))
	_ = r.conn.Locked(func() error {
		note()
		err := r.apply(changes, errs)
		if err != nil && len(changes) > 1 {
			for i := range changes {
				clear(errs[i : i+1])
				errs[i] = errors.Join(r.apply(changes[i:i+1], errs[i:i+1]), errs[i])
			}
			err = nil
		}
		err = cmp.Or(err, r.forget())
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
		return nil
	})
	return errs
}

// apply applies changes in one transaction. If that fails because the cache is outdated, it reads
// the tables first.
func (r *Redirects) apply(changes []change, errs []error) error {
	read := slices.ContainsFunc(r.tables, func(t *table) bool { return !t.known })
	err := r.try(changes, errs)
	if err == nil || read {
		return err
	}
	clear(errs)
	return r.try(changes, errs)
}

func (r *Redirects) try(changes []change, errs []error) error {
	var edits []edit
	var batches []*nft.Batch
	for _, t := range r.tables {
		if err := t.load(r.conn); err != nil {
			return err
		}
		e := t.plan(changes, errs)
		edits, batches = append(edits, e), append(batches, t.request(e))
	}
	if err := r.conn.Commit(batches...); err != nil {
		for _, t := range r.tables {
			t.known = false
		}
		return err
	}
	for i, t := range r.tables {
		t.done(edits[i])
		for _, claims := range []map[flow]claim{edits[i].gone, edits[i].fresh} {
			for f := range claims {
				if f.protocol == unix.IPPROTO_UDP {
					r.stale[conntrack.Destination{Addr: f.at.Addr(), Protocol: f.protocol, Port: f.at.Port()}] = nil
				}
			}
		}
	}
	return nil
}

// forget deletes the conntrack entries of UDP flows that began under other redirects, because
// clients that keep their port would stay there. TCP connections continue. Failed deletions wait
// for the next change, because a retry of the same change finds no difference.
func (r *Redirects) forget() error {
	if len(r.stale) == 0 {
		return nil
	}
	if err := r.endFlows(r.stale); err != nil {
		return fmt.Errorf("ending flows that are redirected otherwise now: %w", err)
	}
	clear(r.stale)
	return nil
}

// list returns all values. It leaves out tables changed by others.
func (r *Redirects) list() (items []item, err error) {
	values := map[string]*redirect{}
	err = r.conn.Locked(func() error {
		for _, t := range r.tables {
			t.known = false
			if err := t.load(r.conn); isUnsupported(err) {
				continue
			} else if err != nil {
				return err
			}
			t.addTo(values)
		}
		for _, v := range values {
			key := models.Key(v)
			if r.wanted[key] == nil {
				r.wanted[key] = v
			}
			items = append(items, item{Key: key, Value: v, Origin: kvscheduler.FromNB})
		}
		return nil
	})
	if len(items) > 0 {
		r.needed()
	}
	return items, err
}

func isUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}
