package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/knftables"
)

// natTable is the name of the only nftables tables that we touch: one for IPv4,
// described here, and one for IPv6 (nat66.go). All our NAT state is in their rules: each carries the value that it stands for as a comment. The chains are
// always written as a whole, in one transaction.
//
//	nat-postrouting   packets that are leaving, unless the node itself sent them
//	 │ out of an output-feature interface ─────────────> nat-source
//	 └ out of an outside interface ─> nat-inside         ^
//	                                   └ in from inside ─┘
//	nat-source        source address from a pool, the same for each source
const natTable = "contiv"

const (
	chainPostrouting = "nat-postrouting"
	chainInside      = "nat-inside"
	chainSource      = "nat-source"
)

var natChains = []string{chainPostrouting, chainInside, chainSource}

// natState is what the chains say.
type natState struct {
	enabled bool
	// intact: the rules are exactly those that the state asks for.
	intact     bool
	interfaces []natInterface
	pools      []natPool
}

// natInterface is a device with its part in NAT.
type natInterface struct {
	device, name            string
	inside, outside, output bool
}

// natPool is a range of addresses.
type natPool struct {
	first, last netip.Addr
	vrf         uint32
	name        string
}

// natRule is a rule with the comment that it is known by.
type natRule struct{ chain, rule, comment string }

// rules returns what the state asks for, in order.
func (s *natState) rules() []natRule {
	list := []natRule{{chainPostrouting, "fib saddr type local return", "packets of the node itself"}}
	for _, i := range s.interfaces {
		id := i.device + " " + i.name
		if i.output {
			list = append(list, natRule{chainPostrouting, fmt.Sprintf("oifname %q goto %s", i.device, chainSource), "output " + id})
		}
		if i.outside {
			list = append(list, natRule{chainPostrouting, fmt.Sprintf("oifname %q jump %s", i.device, chainInside), "outside " + id})
		}
		if i.inside {
			list = append(list, natRule{chainInside, fmt.Sprintf("iifname %q goto %s", i.device, chainSource), "inside " + id})
		}
	}
	for n, p := range s.pools {
		rule := "snat to " + p.String()
		if len(s.pools) > 1 {
			rule = fmt.Sprintf("jhash ip saddr mod %d %d %s", len(s.pools), n, rule)
		}
		list = append(list, natRule{chainSource, rule, fmt.Sprintf("pool %s %d %s", p, p.vrf, p.name)})
	}
	return list
}

// learn takes a rule back into the state.
func (s *natState) learn(chain, comment string) {
	kind, rest, _ := strings.Cut(comment, " ")
	id, name, _ := strings.Cut(rest, " ")
	switch {
	case chain == chainSource && kind == "pool":
		vrf, name, _ := strings.Cut(name, " ")
		if p, err := parsePool(id, vrf, name); err == nil {
			s.pools = append(s.pools, p)
		}
	case kind == "output" || kind == "outside" || kind == "inside":
		at := slices.IndexFunc(s.interfaces, func(i natInterface) bool { return i.name == name })
		if at < 0 {
			at = len(s.interfaces)
			s.interfaces = append(s.interfaces, natInterface{device: id, name: name})
		}
		i := &s.interfaces[at]
		i.output = i.output || kind == "output"
		i.outside = i.outside || kind == "outside"
		i.inside = i.inside || kind == "inside"
	}
}

// natDriver runs nft in the right namespace, one call at a time.
type natDriver struct {
	ns  *namespace
	mu  sync.Mutex
	nft map[knftables.Family]knftables.Interface
	gen generations
}

func (d *natDriver) run(family knftables.Family, fn func(nft knftables.Interface) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ns.run(func() error {
		if d.nft[family] == nil {
			nft, err := knftables.New(family, natTable, knftables.NoObjectCommentEmulation)
			if err != nil {
				return fmt.Errorf("NAT needs the program nft, 1.0.1 or newer (Debian package nftables): %w", err)
			}
			if d.nft == nil {
				d.nft = map[knftables.Family]knftables.Interface{}
			}
			d.nft[family] = nft
		}
		return fn(d.nft[family])
	})
}

func (v nat) read(ctx context.Context) (s *natState, err error) {
	err = v.nat.run(knftables.IPv4Family, func(nft knftables.Interface) error {
		s, err = readNAT(ctx, nft)
		return err
	})
	if err != nil {
		err = fmt.Errorf("reading nftables table %q: %w", natTable, err)
	}
	return s, err
}

func readNAT(ctx context.Context, nft knftables.Interface) (*natState, error) {
	s := &natState{}
	chains, err := nft.List(ctx, "chain")
	if knftables.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if s.enabled = slices.Contains(chains, chainPostrouting); !s.enabled {
		return s, nil
	}
	rules, err := nft.ListRules(ctx, "")
	if err != nil {
		return nil, err
	}
	var found []natRule
	for _, r := range rules {
		if slices.Contains(natChains, r.Chain) {
			comment := ""
			if r.Comment != nil {
				comment = *r.Comment
			}
			found = append(found, natRule{chain: r.Chain, comment: comment})
			s.learn(r.Chain, comment)
		}
	}
	want := s.rules()
	for i := range want {
		want[i].rule = ""
	}
	s.intact = sameRules(found, want)
	return s, nil
}

// sameRules compares chain by chain.
func sameRules(a, b []natRule) bool {
	for _, chain := range natChains {
		of := func(list []natRule) (comments []string) {
			for _, r := range list {
				if r.chain == chain {
					comments = append(comments, r.comment)
				}
			}
			return comments
		}
		if !slices.Equal(of(a), of(b)) {
			return false
		}
	}
	return true
}

// change rewrites the chains with a changed state, if it did change.
func (v nat) change(ctx context.Context, edit func(*natState) error) error {
	return v.nat.run(knftables.IPv4Family, func(nft knftables.Interface) error {
		s, err := readNAT(ctx, nft)
		if err != nil {
			return err
		}
		was := s.enabled
		before := s.rules()
		if err := edit(s); err != nil {
			return err
		}
		if s.enabled == was && (!was || s.intact && slices.Equal(before, s.rules())) {
			return nil
		}
		return v.nat.gen.own(func() error { return writeNAT(ctx, nft, s) })
	})
}

func writeNAT(ctx context.Context, nft knftables.Interface, s *natState) error {
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	for _, name := range natChains {
		chain := &knftables.Chain{Name: name}
		if name == chainPostrouting {
			chain.Type = knftables.PtrTo(knftables.NATType)
			chain.Hook = knftables.PtrTo(knftables.PostroutingHook)
			chain.Priority = knftables.PtrTo(knftables.SNATPriority)
		}
		tx.Add(chain)
		tx.Flush(&knftables.Chain{Name: name})
	}
	if s.enabled {
		for _, r := range s.rules() {
			tx.Add(&knftables.Rule{Chain: r.chain, Rule: r.rule, Comment: knftables.PtrTo(r.comment)})
		}
	} else {
		for _, name := range natChains {
			tx.Delete(&knftables.Chain{Name: name})
		}
	}
	return nft.Run(ctx, tx)
}

var errNATDisabled = errors.New("NAT is not enabled: put a Nat44Global value first")

func (s *natState) mustBeEnabled() error {
	if !s.enabled {
		return errNATDisabled
	}
	return nil
}

func (s *natState) removeInterface(name string) {
	s.interfaces = slices.DeleteFunc(s.interfaces, func(i natInterface) bool { return i.name == name })
}

func (s *natState) removePool(p natPool) {
	s.pools = slices.DeleteFunc(s.pools, func(o natPool) bool { return o.first == p.first && o.last == p.last })
}

// String is the range as nft writes it.
func (p natPool) String() string {
	if p.first == p.last {
		return p.first.String()
	}
	return p.first.String() + "-" + p.last.String()
}

func parsePool(addrs, vrf, name string) (p natPool, err error) {
	p.name = name
	first, last, isRange := strings.Cut(addrs, "-")
	if p.first, err = netip.ParseAddr(first); err != nil {
		return p, err
	}
	p.last = p.first
	if isRange {
		if p.last, err = netip.ParseAddr(last); err != nil {
			return p, err
		}
	}
	number, err := strconv.ParseUint(vrf, 10, 32)
	p.vrf = uint32(number)
	return p, err
}

var commentText = regexp.MustCompile(`^[A-Za-z0-9_./:-]*$`)

// fitsComment: names become parts of comments of rules, and nft knows no way to
// quote quotes.
func fitsComment(name string) bool { return len(name) <= 63 && commentText.MatchString(name) }
