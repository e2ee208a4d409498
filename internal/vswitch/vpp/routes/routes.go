package routes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/contiv/contiv/internal/vswitch/vpp/fibpath"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib"
	"go.fd.io/govpp/binapi/ip"
)

var module = session.NewModule("", "routes",
	&ip.IPRouteAddDelV2{}, &ip.IPRouteAddDelV2Reply{}, &ip.IPRouteLookupV2{}, &ip.IPRouteLookupV2Reply{},
	&ip.IPRouteV2Dump{}, &ip.IPRouteV2Details{}, &ip.IPTableDump{}, &ip.IPTableDetails{},
	&fib.FibSourceDump{}, &fib.FibSourceDetails{},
)

// Routes with the source "API" are ours, unless their outgoing interface is foreign.
type Routes struct {
	subsystem.Base
	vpp     *session.Session
	ifs     *ownership.Registry
	sources atomic.Pointer[fibSources] // nil: not asked for yet
	// passing reports whether a path in VRF 0 is a temporary one of the driver.
	passing func(dst netip.Prefix, gw netip.Addr) bool
}

var (
	_ vswitch.Routes              = (*Routes)(nil)
	_ vswitch.Bulk[*vpp_l3.Route] = (*Routes)(nil)
)

// New returns the routes without the temporary ones reported by passing.
func New(vpp *session.Session, ifs *ownership.Registry, passing func(dst netip.Prefix, gw netip.Addr) bool) *Routes {
	return &Routes{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs, passing: passing}
}

// entry identifies a FIB entry. Several paths may belong to it.
type entry struct {
	table uint32
	dst   netip.Prefix
}

func (e entry) lookup() *ip.IPRouteLookupV2 {
	return &ip.IPRouteLookupV2{TableID: e.table, Exact: 1, Prefix: convert.Prefix(e.dst)}
}

func entryOf(r *vpp_l3.Route) (entry, error) {
	dst, err := convert.ParsePrefix(r.GetDstNetwork())
	return entry{r.GetVrfId(), dst}, err
}

// wayOf returns the path of a route.
func (v *Routes) wayOf(ctx context.Context, r *vpp_l3.Route) (entry, fibpath.Path, error) {
	e, err := entryOf(r)
	if err != nil {
		return e, fibpath.Path{}, err
	}
	out := ownership.NoIndex
	if r.GetType() != vpp_l3.Route_DROP {
		if out, err = v.ifs.Resolve(ctx, r.GetOutgoingInterface()); err != nil {
			return e, fibpath.Path{}, err
		}
	}
	p, err := fibpath.New(r.GetNextHopAddr(), out, r.GetWeight(), r.GetPreference())
	switch {
	case r.GetType() == vpp_l3.Route_DROP:
		p.Drop, p.Gateway = true, netip.Addr{}
	case out != ownership.NoIndex:
	case r.GetType() == vpp_l3.Route_INTER_VRF:
		p.Table = r.GetViaVrfId()
	default:
		p.Table = r.GetVrfId()
	}
	return e, p, err
}

func (v *Routes) Create(ctx context.Context, r *vpp_l3.Route) error {
	return v.CreateAll(ctx, []*vpp_l3.Route{r})[0]
}

// CreateAll reads the existing entry of each destination and then adds paths.
func (v *Routes) CreateAll(ctx context.Context, all []*vpp_l3.Route) []error {
	errs := make([]error, len(all))
	w := make([]newRoute, 0, len(all))
	for i, r := range all {
		e, p, err := v.wayOf(ctx, r)
		if errs[i] = err; err == nil {
			w = append(w, newRoute{i, e, p})
		}
	}
	for len(w) > 0 {
		var now []newRoute
		now, w = onePerEntry(w)
		for i, err := range v.addAll(ctx, now) {
			errs[now[i].i] = err
		}
	}
	for i, r := range all {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("adding route to %s: %w", describeRoute(r), errs[i])
		}
	}
	return errs
}

// newRoute is the path of the i-th route.
type newRoute struct {
	i int
	entry
	fibpath.Path
}

// onePerEntry takes the first path of each entry, because the next one depends on it.
func onePerEntry(w []newRoute) (now, later []newRoute) {
	seen := make(map[entry]bool, len(w))
	for _, x := range w {
		if seen[x.entry] {
			later = append(later, x)
		} else {
			seen[x.entry] = true
			now = append(now, x)
		}
	}
	return now, later
}

func (v *Routes) addAll(ctx context.Context, w []newRoute) []error {
	errs := make([]error, len(w))
	sources, err := v.fibSources(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	lookups := make([]api.Message, len(w))
	for i, x := range w {
		lookups[i] = x.lookup()
	}
	found, lookupErrs := session.CallAll[ip.IPRouteLookupV2Reply](ctx, v.vpp, module, lookups)
	var reqs []api.Message
	var of []int
	for i, x := range w {
		var req *ip.IPRouteAddDelV2
		switch err := lookupErrs[i]; {
		case vppapi.Refused(err, api.NO_SUCH_ENTRY):
			req = addPath(x)
		case vppapi.Refused(err, api.NO_SUCH_FIB):
			errs[i] = fmt.Errorf("VRF %d does not exist", x.entry.table)
		case err != nil:
			errs[i] = err
		default:
			req, errs[i] = addTo(x, found[i].Route, sources)
		}
		if req != nil {
			reqs, of = append(reqs, req), append(of, i)
		}
	}
	_, addErrs := session.CallAll[ip.IPRouteAddDelV2Reply](ctx, v.vpp, module, reqs)
	for j, err := range addErrs {
		if vppapi.Refused(err, api.NO_SUCH_FIB) {
			err = fmt.Errorf("VRF %d, in which it goes on, does not exist", w[of[j]].Path.Table)
		}
		if vppapi.Refused(err, api.NO_MATCHING_INTERFACE) {
			v.ifs.Forget()
		}
		errs[of[j]] = err
	}
	return errs
}

func addPath(x newRoute) *ip.IPRouteAddDelV2 {
	return &ip.IPRouteAddDelV2{IsAdd: true, IsMultipath: true, Route: x.route(x.Path)}
}

func (e entry) route(paths ...fibpath.Path) ip.IPRouteV2 {
	r := ip.IPRouteV2{TableID: e.table, Prefix: convert.Prefix(e.dst)}
	for _, p := range paths {
		r.Paths = append(r.Paths, p.Encode(e.dst.Addr().Is6()))
	}
	r.NPaths = uint8(len(r.Paths))
	return r
}

// addTo returns the request that adds a path to an existing entry; nil if the entry has it.
func addTo(x newRoute, have ip.IPRouteV2, sources *fibSources) (*ip.IPRouteAddDelV2, error) {
	if sources.yields[have.Src] {
		return addPath(x), nil
	}
	if have.Src != sources.api {
		return nil, fmt.Errorf("a foreign route exists (source %q of VPP's FIB): remove it first", sources.name(have.Src))
	}
	paths := fibpath.DecodeAll(have.Paths)
	i := slices.IndexFunc(paths, x.Path.Same)
	switch {
	case slices.ContainsFunc(paths, func(p fibpath.Path) bool { return p.Drop != x.Drop }):
		return nil, errors.New("a route of another type to the same destination exists")
	case i < 0:
		return addPath(x), nil
	case paths[i] == x.Path:
		return nil, nil
	}
	// VPP keeps the weight of an existing path, so all paths are set.
	paths[i] = x.Path
	return &ip.IPRouteAddDelV2{IsAdd: true, Route: x.route(paths...)}, nil
}

func (v *Routes) Delete(ctx context.Context, r *vpp_l3.Route) error {
	return v.DeleteAll(ctx, []*vpp_l3.Route{r})[0]
}

func (v *Routes) DeleteAll(ctx context.Context, all []*vpp_l3.Route) []error {
	errs := make([]error, len(all))
	var w, covers []newRoute
	for i, r := range all {
		e, p, err := v.wayOf(ctx, r)
		var none *ownership.NoInterfaceError
		_, gone := ownership.GoneIndex(r.GetOutgoingInterface())
		switch {
		case gone || errors.As(err, &none):
			errs[i] = v.deleteDead(ctx, r)
		case err != nil:
			errs[i] = err
		case mayCoverNextHop(e, p):
			covers = append(covers, newRoute{i, e, p})
		default:
			w = append(w, newRoute{i, e, p})
		}
	}
	v.deleteAll(ctx, all, w, errs)
	v.deleteCovers(ctx, all, covers, errs)
	for i, r := range all {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("deleting route to %s: %w", describeRoute(r), errs[i])
		}
	}
	return errs
}

// deleteAll deletes paths and sets errs.
func (v *Routes) deleteAll(ctx context.Context, all []*vpp_l3.Route, w []newRoute, errs []error) {
	reqs := make([]api.Message, len(w))
	for i, x := range w {
		reqs[i] = deletePath(x)
	}
	_, deleteErrs := session.CallAll[ip.IPRouteAddDelV2Reply](ctx, v.vpp, module, reqs)
	for j, err := range deleteErrs {
		switch i := w[j].i; {
		case vppapi.Refused(err, api.NO_SUCH_FIB):
		case vppapi.Refused(err, api.NO_MATCHING_INTERFACE):
			v.ifs.Forget()
			errs[i] = v.deleteDead(ctx, all[i])
		default:
			errs[i] = err
		}
	}
}

func deletePath(x newRoute) *ip.IPRouteAddDelV2 {
	return &ip.IPRouteAddDelV2{IsMultipath: true, Route: x.route(x.Path)}
}

// deleteDead removes the path of a route whose outgoing interface is gone. VPP refuses requests
// that name such an interface, so the entry's other paths are set instead.
func (v *Routes) deleteDead(ctx context.Context, r *vpp_l3.Route) error {
	e, err := entryOf(r)
	if err != nil {
		return err
	}
	names := v.ifs.Start(ctx)
	sources, err := v.fibSources(ctx)
	if err != nil {
		return err
	}
	var found ip.IPRouteLookupV2Reply
	err = v.vpp.Call(ctx, module, e.lookup(), &found)
	exist, namesErr := ownership.WaitNames(ctx, names)
	switch {
	case vppapi.Refused(err, api.NO_SUCH_ENTRY) || vppapi.Refused(err, api.NO_SUCH_FIB):
		return nil
	case err != nil || namesErr != nil:
		return errors.Join(err, namesErr)
	case found.Route.Src != sources.api:
		return nil
	}
	paths := fibpath.DecodeAll(found.Route.Paths)
	rest := slices.DeleteFunc(slices.Clone(paths), func(p fibpath.Path) bool {
		_, exists := exist[p.Out]
		return p.Out != ownership.NoIndex && !exists
	})
	switch len(rest) {
	case len(paths):
		return nil
	case 0:
		return v.vpp.Call(ctx, module, &ip.IPRouteAddDelV2{Route: e.route()}, &ip.IPRouteAddDelV2Reply{})
	}
	return v.vpp.Call(ctx, module, &ip.IPRouteAddDelV2{IsAdd: true, Route: e.route(rest...)}, &ip.IPRouteAddDelV2Reply{})
}

func describeRoute(r *vpp_l3.Route) string {
	text := r.GetDstNetwork()
	if r.GetVrfId() != 0 {
		text += fmt.Sprintf(" in VRF %d", r.GetVrfId())
	}
	if gw := r.GetNextHopAddr(); gw != "" {
		text += " via " + gw
	}
	if name := r.GetOutgoingInterface(); name != "" {
		text += fmt.Sprintf(" out of interface %q", name)
	}
	return text
}

// fibSources holds the numbers of the FIB sources.
type fibSources struct {
	of      *session.Link // the VPP that said so
	api     uint8
	nextHop uint8 // VPP's own: the next hop of a path
	cnat    uint8 // services and their clients; 0: not loaded
	yields  map[uint8]bool
	names   map[uint8]string
}

// Sources of entries that VPP adds below requested routes.
var yielding = []string{
	"adjacency", "mpls", "attached_export", "recursive-resolution", "urpf-exempt", "default-route", "interpose", "IPv6-nd", "invalid",
}

func (s *fibSources) name(id uint8) string {
	if name := s.names[id]; name != "" {
		return name
	}
	return fmt.Sprintf("number %d", id)
}

// fibSources asks each VPP once.
func (v *Routes) fibSources(ctx context.Context) (*fibSources, error) {
	l, err := v.vpp.Use(module)
	if err != nil {
		return nil, err
	}
	if s := v.sources.Load(); s != nil && s.of == l {
		return s, nil
	}
	all, err := session.Dump[fib.FibSourceDetails](ctx, v.vpp, module, &fib.FibSourceDump{})
	if err != nil {
		return nil, fmt.Errorf("reading the sources of VPP's FIB: %w", err)
	}
	s := &fibSources{of: l, yields: map[uint8]bool{}, names: map[uint8]string{}}
	for _, d := range all {
		name := strings.TrimRight(d.Src.Name, "\x00")
		s.names[d.Src.ID] = name
		s.yields[d.Src.ID] = slices.Contains(yielding, name)
		switch name {
		case "API":
			s.api = d.Src.ID
		case "recursive-resolution":
			s.nextHop = d.Src.ID
		case "cnat":
			s.cnat = d.Src.ID
		}
	}
	if s.api == 0 {
		return nil, errors.New(`VPP's FIB has no source "API"`)
	}
	v.sources.Store(s)
	return s, nil
}

// Exact returns the networks with a route of ours to exactly them in VRF 0.
func (v *Routes) Exact(ctx context.Context, networks []netip.Prefix) (routed []netip.Prefix, err error) {
	sources, err := v.fibSources(ctx)
	if err != nil {
		return nil, err
	}
	questions := make([]api.Message, len(networks))
	for n, network := range networks {
		questions[n] = entry{0, network}.lookup()
	}
	replies, errs := session.CallAll[ip.IPRouteLookupV2Reply](ctx, v.vpp, module, questions)
	for n, err := range errs {
		switch {
		case vppapi.Refused(err, api.NO_SUCH_ENTRY):
		case err != nil:
			return nil, fmt.Errorf("looking up routes: %w", err)
		case replies[n].Route.Src == sources.api:
			routed = append(routed, networks[n])
		}
	}
	return routed, nil
}
