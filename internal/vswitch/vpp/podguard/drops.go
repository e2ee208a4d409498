package podguard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
)

// Drops implements vswitch.SourceGuards. Packets from outside without a tunnel are counted under
// the name of the VPP graph node that dropped them.
func (g *Guards) Drops(ctx context.Context) ([]vswitch.Drop, error) {
	counts, err := g.counts(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the drop counters of source guards: %w", err)
	}
	var list []vswitch.Drop
	for iface, reasons := range counts {
		for reason, n := range reasons {
			if n > 0 {
				list = append(list, vswitch.Drop{Interface: iface, Reason: reason, Packets: n})
			}
		}
	}
	slices.SortFunc(list, func(a, b vswitch.Drop) int {
		return cmp.Or(cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Reason, b.Reason))
	})
	return list, nil
}

var tunnelNodes = []string{"vxlan4-input", "vxlan6-input"}

// noTunnel is their error counter for packets without a tunnel.
const noTunnel = "no such tunnel packets"

type counted struct {
	iface  string
	before map[vswitch.DropReason]uint64
	tables []uint32
}

// counting returns the tables of a port that count drops, including its ranges.
func (p *port) counting() (ids []uint32) {
	if p == nil {
		return nil
	}
	for n, t := range p.filter {
		if slices.ContainsFunc(t.entries, func(e entry) bool { return reasons[e.verdict] != "" }) {
			ids = append(ids, p.ids[n])
		}
	}
	return append(ids, p.ranges.counting()...)
}

// counts reads all counters. It does not block changes of guards meanwhile, because many tables may
// be slow to read.
func (g *Guards) counts(ctx context.Context) (map[string]map[vswitch.DropReason]uint64, error) {
	known, err := g.known(ctx)
	if err != nil {
		return nil, err
	}
	counts := map[string]map[vswitch.DropReason]uint64{}
	for _, c := range known {
		if counts[c.iface], err = g.countsNow(ctx, c); err != nil {
			return nil, err
		}
	}
	nodes, err := g.errors.Errors(tunnelNodes...)
	if err != nil {
		g.log.Warn("Reading VPP's counter of VXLAN packets without a tunnel failed", "error", err)
	}
	for node, reasons := range nodes {
		counts[node] = map[vswitch.DropReason]uint64{vswitch.DropVXLAN: reasons[noTunnel]}
	}
	return counts, nil
}

func (g *Guards) known(ctx context.Context) ([]counted, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return nil, err
	}
	var all []counted
	interfaces := map[string]bool{}
	for iface := range g.counted {
		interfaces[iface] = true
	}
	for iface := range g.records {
		interfaces[iface] = true
	}
	if g.open != nil {
		interfaces[g.ranges.iface] = true
	}
	for _, p := range g.policed {
		interfaces[p.iface] = true
	}
	for iface := range interfaces {
		c, err := g.knownOf(ctx, iface)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (g *Guards) knownOf(ctx context.Context, iface string) (counted, error) {
	c := counted{iface: iface, before: maps.Clone(g.counted[iface])}
	i, ok, err := g.ifs.Known(ctx, iface)
	if ok {
		c.tables = slices.Concat(g.portAt(i).counting(), g.policed[i].counted())
	}
	return c, err
}

// portAt returns the port of an interface, guarded or not; nil: none.
func (g *Guards) portAt(i ownership.Index) *port {
	if g.open != nil && g.open.index == i {
		return g.open.port
	}
	return g.ports[i]
}

// countsNow returns the counters of an interface. If its tables were replaced during the read, it
// reads the new ones, and blocks their replacement meanwhile.
func (g *Guards) countsNow(ctx context.Context, c counted) (map[vswitch.DropReason]uint64, error) {
	if len(c.tables) == 0 {
		return c.before, nil
	}
	now, err := g.countsOf(ctx, c.tables)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.learn(ctx); err != nil {
		return nil, err
	}
	again, knownErr := g.knownOf(ctx, c.iface)
	if knownErr != nil {
		return nil, knownErr
	}
	if !slices.Equal(again.tables, c.tables) || !maps.Equal(again.before, c.before) {
		c = again
		now, err = g.countsOf(ctx, c.tables)
	}
	if err != nil {
		return nil, err
	}
	for reason, n := range c.before {
		now[reason] += n
	}
	return now, nil
}

// countsOf reads the counters of tables. VPP has no API message for that.
//
// Entries count no hits before VPP's clock, which starts with VPP, shows one second: 25.10's
// vnet_classify_find_entry skips callers without a time with PREDICT_TRUE(now), which truncates the
// time to an integer first. The classifier has no other counters per entry.
func (g *Guards) countsOf(ctx context.Context, tables []uint32) (map[vswitch.DropReason]uint64, error) {
	counts := map[vswitch.DropReason]uint64{}
	for _, id := range tables {
		text, err := g.vpp.CLI(ctx, fmt.Sprintf("show classify tables index %d verbose", id))
		if err != nil {
			return nil, err
		}
		if err := addCounts(counts, text); err != nil {
			return nil, fmt.Errorf("table %d of the classifier: %w", id, err)
		}
	}
	return counts, nil
}

// keepCounts saves the counters of an interface's tables before their deletion.
func (g *Guards) keepCounts(ctx context.Context, iface string, tables []uint32) {
	if len(tables) == 0 {
		return
	}
	counts, err := g.countsOf(ctx, tables)
	if err != nil {
		g.log.Warn("Reading the drop counter of a source guard failed; it restarts from zero", "interface", iface, "error", err)
	}
	for reason, n := range counts {
		if g.counted[iface] == nil {
			g.counted[iface] = map[vswitch.DropReason]uint64{}
		}
		g.counted[iface][reason] += n
	}
}

// entryCounts matches an entry in VPP's output, in three or, with a long key, more lines.
var entryCounts = regexp.MustCompile(`next_index -?\d+ advance -?\d+ opaque (-?\d+) action [^[]*?hits (\d+),`)

func addCounts(counts map[vswitch.DropReason]uint64, text string) error {
	all := entryCounts.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return fmt.Errorf("%w: %.200q", errNoCount, strings.TrimSpace(text))
	}
	for _, m := range all {
		opaque, err1 := strconv.ParseInt(m[1], 10, 32)
		hits, err2 := strconv.ParseUint(m[2], 10, 64)
		if err := cmp.Or(err1, err2); err != nil {
			return err
		}
		if _, v, ours := marked(uint32(opaque)); ours && reasons[v] != "" {
			counts[reasons[v]] += hits
		}
	}
	return nil
}
