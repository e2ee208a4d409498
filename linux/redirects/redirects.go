package redirects

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/linux/namespaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netlink/events"
	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Descriptor is the name of the descriptor of redirects.
const Descriptor = "contiv-host-redirect"

type (
	redirect = contiv_nat.HostRedirect
	item     = kvscheduler.Item[*redirect, kvscheduler.NoMetadata]
)

// errTaken says that two values redirect the same.
var errTaken = errors.New("another value redirects it: take it out of one of them")

// Redirects are those of the agent's network namespace.
type Redirects struct {
	own    *namespaces.Namespace
	conn   *nft.Conn
	tables []*table // used while conn is locked

	mu   sync.Mutex
	keys map[string]bool // of values that were set
}

// New connects to the nftables of a namespace, which must stay open until Close.
func New(own *namespaces.Namespace) (*Redirects, error) {
	conn, err := nft.Open(&namespace.Namespace{Handle: own.Handle()})
	if err != nil {
		return nil, err
	}
	return &Redirects{own: own, conn: conn, tables: []*table{{family: ipv4}, {family: ipv6}}, keys: map[string]bool{}}, nil
}

// Close ends the connection; redirects stay.
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
		Create: func(_ context.Context, key string, v *redirect) (kvscheduler.NoMetadata, error) {
			return none, r.set(key, v)
		},
		Update: func(_ context.Context, key string, _, v *redirect, _ kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
			return none, r.set(key, v)
		},
		Delete: func(_ context.Context, key string, v *redirect, _ kvscheduler.NoMetadata) error {
			return r.remove(key, v)
		},
		Retrieve:  func(context.Context, []item) ([]item, error) { return r.list() },
		Retriable: func(err error) bool { return !errors.Is(err, errTaken) },
	}
}

var labelText = regexp.MustCompile(`^[A-Za-z0-9_./:-]{1,127}$`) // comments of nftables have at most 128 bytes

func validate(v *redirect) error {
	if !labelText.MatchString(v.GetLabel()) {
		return kvscheduler.NewInvalidValueError(fmt.Errorf("%q is no label: use 1 to 127 letters, digits and any of -_./: in it", v.GetLabel()), "label")
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

// set makes a value all that there is under its label.
func (r *Redirects) set(key string, v *redirect) error {
	r.note(key, true)
	if err := r.forward(v); err != nil {
		return err
	}
	if err := r.change(v.GetLabel(), entriesOf(v)); err != nil {
		return fmt.Errorf("redirecting %q: %w", v.GetLabel(), err)
	}
	return nil
}

func (r *Redirects) remove(key string, v *redirect) error {
	if err := r.change(v.GetLabel(), nil); err != nil && !isUnsupported(err) {
		return fmt.Errorf("ending redirect %q: %w", v.GetLabel(), err)
	}
	r.note(key, false)
	return nil
}

func (r *Redirects) note(key string, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if exists {
		r.keys[key] = true
	} else {
		delete(r.keys, key)
	}
}

// forward makes the host forward what comes from outside.
func (r *Redirects) forward(v *redirect) error {
	var has4, has6 bool
	for _, e := range entriesOf(v) {
		has4, has6 = has4 || e.at.Addr().Is4(), has6 || e.at.Addr().Is6()
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

// change makes the entries all that there are under a label.
func (r *Redirects) change(label string, entries []entry) error {
	changed := map[flow]bool{}
	err := r.conn.Locked(func() error {
		for _, t := range r.tables {
			if err := t.read(r.conn); err != nil {
				return err
			}
			if err := t.change(r.conn, label, entries, changed); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, r.forget(changed))
}

// forget has the kernel forget flows of UDP that began when something else was redirected. Clients that keep their port would go on
// as they began. TCP either is connected, and goes on, or begins anew.
func (r *Redirects) forget(changed map[flow]bool) error {
	flows := udpFlows{}
	for f := range changed {
		if f.protocol == unix.IPPROTO_UDP {
			flows[f] = true
		}
	}
	if len(flows) == 0 {
		return nil
	}
	h, err := netlink.NewHandleAt(r.own.Handle(), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer h.Close()
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if _, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, family, flows); err != nil {
			return fmt.Errorf("ending flows that are redirected otherwise now: %w", err)
		}
	}
	return nil
}

type udpFlows map[flow]bool

// MatchConntrackFlow reports whether a flow is to end.
func (u udpFlows) MatchConntrackFlow(c *netlink.ConntrackFlow) bool {
	addr, _ := netip.AddrFromSlice(c.Forward.DstIP)
	return u[flow{netip.AddrPortFrom(addr.Unmap(), c.Forward.DstPort), c.Forward.Protocol}]
}

// list returns all values. What is in a table that others have changed does not count.
func (r *Redirects) list() (items []item, err error) {
	values := map[string]*redirect{}
	err = r.conn.Locked(func() error {
		for _, t := range r.tables {
			t.known = false
			if err := t.read(r.conn); isUnsupported(err) {
				continue
			} else if err != nil {
				return err
			}
			t.addTo(values)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		key := models.Key(v)
		r.note(key, true)
		items = append(items, item{Key: key, Value: v, Origin: kvscheduler.FromNB})
	}
	return items, nil
}

// isUnsupported reports whether the kernel has no nftables, or not of the IP version.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT)
}

// Watch reports changes of the tables by others until the subscription, which is to nftables in the agent's namespace, is
// closed or fails.
func (r *Redirects) Watch(socket *events.Subscription, delay time.Duration, report func(reason string, keys ...string)) error {
	var next nft.Events
	var suspects []nft.Change
	var lost bool
	var flushAt time.Time
	for {
		d, err := socket.Receive(flushAt)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, events.ErrLost):
			lost = true
		case err != nil:
			return err
		default:
			for _, m := range d.Messages {
				suspects = append(suspects, next.Next(m)...)
			}
		}
		switch now := time.Now(); {
		case len(suspects) == 0 && !lost:
		case flushAt.IsZero():
			flushAt = now.Add(delay)
		case !now.Before(flushAt):
			by, foreign := r.conn.Foreign(suspects, "ip "+tableName, "ip6 "+tableName)
			if foreign || lost {
				r.report(by, report)
			}
			suspects, lost, flushAt = nil, false, time.Time{}
		}
	}
}

func (r *Redirects) report(by string, report func(reason string, keys ...string)) {
	r.mu.Lock()
	keys := make([]string, 0, len(r.keys))
	for key := range r.keys {
		keys = append(keys, key)
	}
	r.mu.Unlock()
	if len(keys) > 0 {
		slices.Sort(keys)
		report(fmt.Sprintf("nftables table %q was changed%s", tableName, by), keys...)
	}
}
