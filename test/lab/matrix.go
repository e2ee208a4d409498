package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Cell is the measurement from one endpoint to another.
type Cell struct {
	From, To Endpoint
	// ICMP and TCP are round-trip times, valid if the error is nil.
	ICMP, TCP       time.Duration
	ICMPErr, TCPErr error
	// Source is the client address that the TCP server saw.
	Source netip.Addr
}

// Group returns the kind of path, such as pod to pod on the same node.
func (c Cell) Group() string {
	switch {
	case c.To.Kind == OutsideEndpoint:
		return string(c.From.Kind) + " → outside"
	case c.From.Kind == c.To.Kind && c.From.Kind == PodEndpoint && c.From.Node == c.To.Node:
		return "pod → pod, same node"
	case c.From.Kind == c.To.Kind && c.From.Kind == PodEndpoint:
		return "pod → pod, across nodes"
	case c.From.Kind == c.To.Kind:
		return "node → node"
	case c.From.Node == c.To.Node:
		return fmt.Sprintf("%s → %s, same node", c.From.Kind, c.To.Kind)
	}
	return fmt.Sprintf("%s → %s, across nodes", c.From.Kind, c.To.Kind)
}

// Err returns the failures of the cell, or nil.
func (c Cell) Err() error {
	var errs []error
	if c.ICMPErr != nil {
		errs = append(errs, fmt.Errorf("ICMP: %w", c.ICMPErr))
	}
	if c.TCPErr != nil {
		errs = append(errs, fmt.Errorf("TCP: %w", c.TCPErr))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s → %s: %s", c.From.Name, c.To.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// Matrix holds a cell for each pair of endpoints.
type Matrix struct {
	Sources, Destinations []Endpoint
	Cells                 []Cell
}

// Matrix measures connectivity with real packets between all endpoints or between the named ones
// (pods, nodes, "outside"). Failed connections are in the cells; the error is about the measurement
// itself.
func (l *Lab) Matrix(ctx context.Context, names ...string) (*Matrix, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	endpoints, err := st.named(names)
	if err != nil {
		return nil, err
	}
	return measure(ctx, st, endpoints)
}

// MatrixIPv6 is Matrix over IPv6 in a dual-stack lab.
func (l *Lab) MatrixIPv6(ctx context.Context, names ...string) (*Matrix, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	if !st.DualStack {
		return nil, fmt.Errorf("lab %s has IPv4 only", st.Name)
	}
	endpoints, err := st.named(names)
	if err != nil {
		return nil, err
	}
	for i, e := range endpoints {
		if endpoints[i], err = st.overIPv6(e); err != nil {
			return nil, err
		}
	}
	return measure(ctx, st, endpoints)
}

func (s *State) named(names []string) ([]Endpoint, error) {
	endpoints := s.Endpoints()
	if len(names) > 0 {
		endpoints = nil
		for _, name := range names {
			e, err := s.Endpoint(name)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(endpoints, e) {
				endpoints = append(endpoints, e)
			}
		}
		if len(endpoints) < 2 {
			return nil, fmt.Errorf("a matrix needs at least two endpoints: add one to %s", endpoints[0].Name)
		}
	}
	return endpoints, nil
}

func measure(ctx context.Context, st *State, endpoints []Endpoint) (*Matrix, error) {
	m := &Matrix{Destinations: endpoints}
	servers := map[string]*tcpServer{}
	for _, e := range endpoints {
		servers[e.Name] = serveTCP(e)
		defer servers[e.Name].close()
		if e.Kind != OutsideEndpoint {
			m.Sources = append(m.Sources, e)
		}
	}
	for _, from := range m.Sources {
		for _, to := range m.Destinations {
			if from != to {
				m.Cells = append(m.Cells, Cell{From: from, To: to})
			}
		}
	}
	atOnce(8, len(m.Cells), func(i int) {
		m.Cells[i].measure(ctx, st, servers[m.Cells[i].To.Name])
	})
	return m, ctx.Err()
}

func (c *Cell) measure(ctx context.Context, st *State, server *tcpServer) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	c.ICMP, c.ICMPErr = Ping(ctx, c.From, c.To)
	c.TCP, c.Source, c.TCPErr = probeTCP(ctx, c.From, server)
	if c.TCPErr == nil {
		c.TCPErr = c.checkSource(st)
	}
}

// checkSource checks that pods see each other's own addresses and that hosts outside of the cluster
// see only node addresses. Traffic from pods to other nodes leaves through the NIC and may have
// either source.
func (c *Cell) checkSource(st *State) error {
	if c.From.Kind == NodeEndpoint {
		return nil // a node may use any of its addresses
	}
	node, err := st.Node(c.From.Node)
	if err != nil {
		return err
	}
	var allowed []netip.Addr
	if c.To.Kind != OutsideEndpoint {
		allowed = append(allowed, c.From.Address)
	}
	if c.To.Node != c.From.Node && c.To.Kind != PodEndpoint {
		hidden := node.Address
		if st.DualStack && c.From.Address.Is6() {
			hidden = node.Address6
		}
		allowed = append(allowed, hidden.Addr())
		if node.OnVPP() {
			allowed = append(allowed, node.VPPAddress.Addr())
		}
	}
	if !slices.Contains(allowed, c.Source) {
		return fmt.Errorf("the server saw the client as %s, not as %v", c.Source, allowed)
	}
	return nil
}

// Err joins the failures of all cells. It returns nil without failures.
func (m *Matrix) Err() error {
	var errs []error
	for _, c := range m.Cells {
		errs = append(errs, c.Err())
	}
	return errors.Join(errs...)
}

// Write prints the matrix, a summary by kind of path, and the failures.
func (m *Matrix) Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "ICMP/TCP round trip, ms\t")
	for _, to := range m.Destinations {
		fmt.Fprintf(table, "%s\t", to.Name)
	}
	fmt.Fprintln(table)
	for _, from := range m.Sources {
		fmt.Fprintf(table, "%s\t", from.label())
		for _, to := range m.Destinations {
			fmt.Fprintf(table, "%s\t", m.text(from, to))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return m.writeSummary(w)
}

func (e Endpoint) label() string {
	if e.Kind == PodEndpoint {
		return fmt.Sprintf("%s (%s on %s)", e.Name, e.Address, e.Node)
	}
	return fmt.Sprintf("%s (%s)", e.Name, e.Address)
}

func (m *Matrix) text(from, to Endpoint) string {
	i := slices.IndexFunc(m.Cells, func(c Cell) bool { return c.From == from && c.To == to })
	if i < 0 {
		return "·"
	}
	return millis(m.Cells[i].ICMP, m.Cells[i].ICMPErr) + "/" + millis(m.Cells[i].TCP, m.Cells[i].TCPErr)
}

func millis(d time.Duration, err error) string {
	if err != nil {
		return "FAIL"
	}
	return fmt.Sprintf("%.2f", d.Seconds()*1000)
}

func (m *Matrix) writeSummary(w io.Writer) error {
	var groups []string
	cells := map[string][]Cell{}
	for _, c := range m.Cells {
		if cells[c.Group()] == nil {
			groups = append(groups, c.Group())
		}
		cells[c.Group()] = append(cells[c.Group()], c)
	}
	slices.Sort(groups)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATH\tREACHED\tICMP p50\tTCP p50")
	for _, g := range groups {
		var reached int
		var icmp, tcp []time.Duration
		for _, c := range cells[g] {
			if c.Err() == nil {
				reached++
				icmp, tcp = append(icmp, c.ICMP), append(tcp, c.TCP)
			}
		}
		fmt.Fprintf(table, "%s\t%d of %d\t%s\t%s\n", g, reached, len(cells[g]), median(icmp), median(tcp))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range m.Cells {
		if err := c.Err(); err != nil {
			fmt.Fprintf(w, "FAIL  %v\n", err)
		}
	}
	return nil
}

func median(d []time.Duration) string {
	if len(d) == 0 {
		return "-"
	}
	return millis(Percentile(d, 50), nil) + " ms"
}

// Percentile returns the p-th percentile (nearest rank). It requires at least one duration.
func Percentile(d []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[max((len(sorted)*p+99)/100-1, 0)]
}
