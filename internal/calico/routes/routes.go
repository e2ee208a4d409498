package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/calico/datastore"
)

// Route is a route of a host.
type Route struct {
	// Via is the next hop; invalid: drop packets.
	Via netip.Addr
	// Host is the destination host.
	Host string
}

// Drop reports whether the route drops packets.
func (r Route) Drop() bool { return !r.Via.IsValid() }

func (r Route) String() string {
	if r.Drop() {
		return "drop (own block)"
	}
	return fmt.Sprintf("via %s (%s)", r.Via, r.Host)
}

// Table has the routes of one host, by destination.
type Table map[netip.Prefix]Route

// Owners maps prefixes (blocks and borrowed addresses) to hosts.
type Owners map[netip.Prefix]string

// FindOwners applies rules 1 and 2. It returns errors about contradictory data.
func FindOwners(s *datastore.State) (Owners, []error) {
	blocks, errs := distinct(s.Blocks)
	owners := make(Owners, len(blocks))
	borrowedFrom := make(map[netip.Prefix]int) // prefix lengths of the blocks
	for cidr, key := range blocks {
		block := s.Blocks[key]
		if _, borrowed := borrowedFrom[cidr]; block.Host != "" && !borrowed {
			owners[cidr] = block.Host
		}
		for addr, host := range block.Borrowed {
			// If blocks overlap, the smallest one counts.
			if dst := hostPrefix(addr); borrowedFrom[dst] < cidr.Bits() {
				owners[dst], borrowedFrom[dst] = host, cidr.Bits()
			}
		}
	}
	for cidr, hosts := range claims(s.Affinities) {
		if _, known := blocks[cidr]; known {
			continue
		}
		if len(hosts) > 1 {
			errs = append(errs, fmt.Errorf("the block %s is claimed by the hosts %q: none gets a route until one gives it up", cidr, hosts))
			continue
		}
		if _, borrowed := borrowedFrom[cidr]; !borrowed {
			owners[cidr] = hosts[0]
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return owners, errs
}

// distinct returns one key per block: the first one of duplicates.
func distinct(all map[string]datastore.Block) (map[netip.Prefix]string, []error) {
	var errs []error
	blocks := make(map[netip.Prefix]string, len(all))
	for key, block := range all {
		other, twice := blocks[block.CIDR]
		if twice {
			errs = append(errs, fmt.Errorf("the block %s is there more than once: the first of its keys is used", block.CIDR))
		}
		if !twice || key < other {
			blocks[block.CIDR] = key
		}
	}
	return blocks, errs
}

// claims returns the hosts that have confirmed affinities, sorted.
func claims(affinities map[string]datastore.Affinity) map[netip.Prefix][]string {
	claims := make(map[netip.Prefix][]string)
	for _, a := range affinities {
		if a.Confirmed && !slices.Contains(claims[a.CIDR], a.Host) {
			claims[a.CIDR] = append(claims[a.CIDR], a.Host)
		}
	}
	for _, hosts := range claims {
		slices.Sort(hosts)
	}
	return claims
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// Peers holds the addresses of hosts.
type Peers map[string]Addresses

// Addresses of one host; invalid: none.
type Addresses struct{ IPv4, IPv6 netip.Addr }

// Of returns the address of a's family.
func (p Addresses) Of(a netip.Addr) netip.Addr {
	if a.Is4() {
		return p.IPv4
	}
	return p.IPv6
}

// FindPeers returns the addresses of hosts; of several per family, the lowest.
func FindPeers(s *datastore.State) Peers {
	peers := make(Peers)
	for _, p := range s.Peers {
		known := peers[p.Host]
		field := &known.IPv6
		if p.Addr.Is4() {
			field = &known.IPv4
		}
		if !field.IsValid() || p.Addr.Less(*field) {
			*field = p.Addr
		}
		peers[p.Host] = known
	}
	return peers
}

// Host is the host that the routes are calculated for.
type Host struct {
	Name string
	// Uplinks holds the addresses of its uplink with their prefix lengths.
	Uplinks []netip.Prefix
}

// For applies rules 3 to 5. waiting holds, by host, the prefixes without a route because the host's
// address is unknown.
func (h Host) For(owners Owners, peers Peers) (table Table, waiting map[string][]netip.Prefix, errs []error) {
	table, waiting = make(Table, len(owners)), make(map[string][]netip.Prefix)
	for dst, owner := range owners {
		if owner == h.Name {
			if !dst.IsSingleIP() {
				table[dst] = Route{Host: owner}
			}
			continue
		}
		via := peers[owner].Of(dst.Addr())
		if !via.IsValid() {
			waiting[owner] = append(waiting[owner], dst)
			continue
		}
		table[dst] = Route{Via: via, Host: owner}
	}
	for _, prefixes := range waiting {
		slices.SortFunc(prefixes, netip.Prefix.Compare)
	}
	return table, waiting, h.Refuse(table)
}

// Refuse removes routes that would cut the host off: into the uplink's own subnets, and through the
// host itself. It also applies to the centre's tables.
func (h Host) Refuse(table Table) (errs []error) {
	for dst, route := range table {
		if err := h.refuse(dst, route); err != nil {
			delete(table, dst)
			errs = append(errs, err)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

func (h Host) refuse(dst netip.Prefix, route Route) error {
	for _, uplink := range h.Uplinks {
		switch {
		case dst.Overlaps(uplink.Masked()):
			return fmt.Errorf("no route to %s of host %s: it overlaps the uplink's subnet %s; give Calico another IP pool", dst, route.Host, uplink.Masked())
		case route.Via == uplink.Addr():
			return fmt.Errorf("no route to %s: host %s says that its address is %s, which is this host's; do two hosts have it?", dst, route.Host, route.Via)
		}
	}
	if !route.Drop() && route.Via.Is4() != dst.Addr().Is4() {
		return fmt.Errorf("no route to %s: its next hop %s is of the other family", dst, route.Via)
	}
	if !route.Drop() && dst.Contains(route.Via) {
		return fmt.Errorf("no route to %s: its next hop %s is in it", dst, route.Via)
	}
	return nil
}

// Calculation is the result of all rules for one host.
type Calculation struct {
	Table   Table
	Waiting map[string][]netip.Prefix
	// Problems lists the omitted parts, sorted.
	Problems []string
}

// Calculate applies all rules.
func (h Host) Calculate(s *datastore.State) Calculation {
	owners, errs := FindOwners(s)
	table, waiting, refused := h.For(owners, FindPeers(s))
	c := Calculation{Table: table, Waiting: waiting}
	for key, err := range s.Problems {
		errs = append(errs, fmt.Errorf("%s: %w", key, err))
	}
	for _, err := range append(errs, refused...) {
		c.Problems = append(c.Problems, err.Error())
	}
	slices.Sort(c.Problems)
	c.Problems = slices.Compact(c.Problems)
	return c
}
