package vpp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
)

var routeModule = newModule("", "routes",
	&ip.IPRouteAddDelV2{}, &ip.IPRouteAddDelV2Reply{}, &ip.IPRouteLookupV2{}, &ip.IPRouteLookupV2Reply{},
	&ip.IPRouteV2Dump{}, &ip.IPRouteV2Details{}, &ip.IPTableDump{}, &ip.IPTableDetails{},
	&fib.FibSourceDump{}, &fib.FibSourceDetails{},
)

// routes are ours if the source of VPP's entry is "API", and they do not lead out of an
// interface that is somebody else's.
type routes struct{ *VSwitch }

func (v *VSwitch) Routes() vswitch.Routes { return routes{v} }

var _ vswitch.Bulk[*vpp_l3.Route] = routes{}

// entry is what VPP has one of: paths have it in common.
type entry struct {
	table uint32
	dst   netip.Prefix
}

func (e entry) lookup() *ip.IPRouteLookupV2 {
	return &ip.IPRouteLookupV2{TableID: e.table, Exact: 1, Prefix: prefixOf(e.dst)}
}

func entryOf(r *vpp_l3.Route) (entry, error) {
	dst, err := parsePrefix(r.GetDstNetwork())
	return entry{r.GetVrfId(), dst}, err
}

// wayOf returns the path that a route stands for.
func (v routes) wayOf(ctx context.Context, r *vpp_l3.Route) (entry, path, error) {
	e, err := entryOf(r)
	if err != nil {
		return e, path{}, err
	}
	out := noIndex
	if r.GetType() != vpp_l3.Route_DROP {
		if out, err = v.indexOf(ctx, r.GetOutgoingInterface()); err != nil {
			return e, path{}, err
		}
	}
	p, err := newPath(r.GetNextHopAddr(), out, r.GetWeight(), r.GetPreference())
	switch {
	case r.GetType() == vpp_l3.Route_DROP:
		p.drop, p.gw = true, netip.Addr{}
	case out != noIndex:
	case r.GetType() == vpp_l3.Route_INTER_VRF:
		p.table = r.GetViaVrfId()
	default:
		p.table = r.GetVrfId()
	}
	return e, p, err
}

func (v routes) Create(ctx context.Context, r *vpp_l3.Route) error {
	return v.CreateAll(ctx, []*vpp_l3.Route{r})[0]
}

// CreateAll looks at what there is to each destination, and then adds paths to it.
func (v routes) CreateAll(ctx context.Context, all []*vpp_l3.Route) []error {
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

// newRoute is a path of the i-th of several routes.
type newRoute struct {
	i int
	entry
	path
}

// onePerEntry takes the first path of each entry: the next one depends on it.
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

func (v routes) addAll(ctx context.Context, w []newRoute) []error {
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
	found, lookupErrs := callAll[ip.IPRouteLookupV2Reply](ctx, v.VSwitch, routeModule, lookups)
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
	_, addErrs := callAll[ip.IPRouteAddDelV2Reply](ctx, v.VSwitch, routeModule, reqs)
	for j, err := range addErrs {
		if vppapi.Refused(err, api.NO_SUCH_FIB) {
			err = fmt.Errorf("VRF %d, in which it goes on, does not exist", w[of[j]].path.table)
		}
		if vppapi.Refused(err, api.NO_MATCHING_INTERFACE) {
			v.ifs.forget()
		}
		errs[of[j]] = err
	}
	return errs
}

func addPath(x newRoute) *ip.IPRouteAddDelV2 {
	return &ip.IPRouteAddDelV2{IsAdd: true, IsMultipath: true, Route: x.route(x.path)}
}

func (e entry) route(paths ...path) ip.IPRouteV2 {
	r := ip.IPRouteV2{TableID: e.table, Prefix: prefixOf(e.dst)}
	for _, p := range paths {
		r.Paths = append(r.Paths, p.encode(e.dst.Addr().Is6()))
	}
	r.NPaths = uint8(len(r.Paths))
	return r
}

// addTo says how a path is added to an entry that there is; nil: it has it.
func addTo(x newRoute, have ip.IPRouteV2, sources *fibSources) (*ip.IPRouteAddDelV2, error) {
	if sources.yields[have.Src] {
		return addPath(x), nil
	}
	if have.Src != sources.api {
		return nil, fmt.Errorf("there is a route that is not ours (source %q of VPP's FIB): remove it first", sources.name(have.Src))
	}
	paths := pathsOf(have.Paths)
	i := slices.IndexFunc(paths, x.path.same)
	switch {
	case slices.ContainsFunc(paths, func(p path) bool { return p.drop != x.drop }):
		return nil, errors.New("there is a route of another type to the same destination")
	case i < 0:
		return addPath(x), nil
	case paths[i] == x.path:
		return nil, nil
	}
	// VPP keeps the weight of a path that it has: all of them are set.
	paths[i] = x.path
	return &ip.IPRouteAddDelV2{IsAdd: true, Route: x.route(paths...)}, nil
}

func pathsOf(list []fib_types.FibPath) []path {
	paths := make([]path, 0, len(list))
	for _, f := range list {
		if p, ok := decodePath(f); ok {
			paths = append(paths, p)
		}
	}
	return paths
}

func (v routes) Delete(ctx context.Context, r *vpp_l3.Route) error {
	return v.DeleteAll(ctx, []*vpp_l3.Route{r})[0]
}

func (v routes) DeleteAll(ctx context.Context, all []*vpp_l3.Route) []error {
	errs := make([]error, len(all))
	var reqs []api.Message
	var of []int
	for i, r := range all {
		e, p, err := v.wayOf(ctx, r)
		var none *noInterfaceError
		_, gone := goneIndex(r.GetOutgoingInterface())
		switch {
		case gone || errors.As(err, &none):
			errs[i] = v.deleteDead(ctx, r)
		case err != nil:
			errs[i] = err
		default:
			reqs, of = append(reqs, &ip.IPRouteAddDelV2{IsMultipath: true, Route: e.route(p)}), append(of, i)
		}
	}
	_, deleteErrs := callAll[ip.IPRouteAddDelV2Reply](ctx, v.VSwitch, routeModule, reqs)
	for j, err := range deleteErrs {
		switch i := of[j]; {
		case vppapi.Refused(err, api.NO_SUCH_FIB):
		case vppapi.Refused(err, api.NO_MATCHING_INTERFACE):
			v.ifs.forget()
			errs[i] = v.deleteDead(ctx, all[i])
		default:
			errs[i] = err
		}
	}
	for i, r := range all {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("deleting route to %s: %w", describeRoute(r), errs[i])
		}
	}
	return errs
}

// deleteDead removes the path of a route out of an interface that does not exist any
// more. VPP takes no request that names such an interface: the other paths of the
// entry are set, without any that leads out of one.
func (v routes) deleteDead(ctx context.Context, r *vpp_l3.Route) error {
	e, err := entryOf(r)
	if err != nil {
		return err
	}
	names := v.startInterfaces(ctx)
	sources, err := v.fibSources(ctx)
	if err != nil {
		return err
	}
	var found ip.IPRouteLookupV2Reply
	err = v.call(ctx, routeModule, e.lookup(), &found)
	exist, namesErr := waitNames(ctx, names)
	switch {
	case vppapi.Refused(err, api.NO_SUCH_ENTRY) || vppapi.Refused(err, api.NO_SUCH_FIB):
		return nil
	case err != nil || namesErr != nil:
		return errors.Join(err, namesErr)
	case found.Route.Src != sources.api:
		return nil
	}
	paths := pathsOf(found.Route.Paths)
	rest := slices.DeleteFunc(slices.Clone(paths), func(p path) bool {
		_, exists := exist[p.out]
		return p.out != noIndex && !exists
	})
	switch len(rest) {
	case len(paths):
		return nil
	case 0:
		return v.call(ctx, routeModule, &ip.IPRouteAddDelV2{Route: e.route()}, &ip.IPRouteAddDelV2Reply{})
	}
	return v.call(ctx, routeModule, &ip.IPRouteAddDelV2{IsAdd: true, Route: e.route(rest...)}, &ip.IPRouteAddDelV2Reply{})
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

// fibSources are the numbers of those that VPP's FIB knows to add routes.
type fibSources struct {
	api    uint8
	yields map[uint8]bool
	names  map[uint8]string
}

// What VPP adds on its own account under routes that anybody asks for.
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
func (v *VSwitch) fibSources(ctx context.Context) (*fibSources, error) {
	l, err := v.use(routeModule)
	if err != nil {
		return nil, err
	}
	if s := l.sources.Load(); s != nil {
		return s, nil
	}
	all, err := dump[fib.FibSourceDetails](ctx, v, routeModule, &fib.FibSourceDump{})
	if err != nil {
		return nil, fmt.Errorf("reading the sources of VPP's FIB: %w", err)
	}
	s := &fibSources{yields: map[uint8]bool{}, names: map[uint8]string{}}
	for _, d := range all {
		name := strings.TrimRight(d.Src.Name, "\x00")
		s.names[d.Src.ID] = name
		s.yields[d.Src.ID] = slices.Contains(yielding, name)
		if name == "API" {
			s.api = d.Src.ID
		}
	}
	if s.api == 0 {
		return nil, errors.New(`VPP's FIB has no source "API"`)
	}
	l.sources.Store(s)
	return s, nil
}
