package rtnl

import (
	"net"

	"github.com/vishvananda/netlink"
)

// Fault is called before each request, including dumps and [Conn.Request], and may fail it in place
// of the kernel: with EBUSY, ENOBUFS, or for dumps netlink.ErrDumpInterrupted. call is the name of
// the method; for requests of Conn itself it is "Do" for changes and "Execute" for reads.
type Fault func(call string) error

// InjectFaults sets the Fault of all further requests; nil: none. For tests, while no request is in
// progress.
func (r *Conn) InjectFaults(f Fault) { r.fault = f }

func (r *Conn) try(call string, do func() error) error {
	if r.fault != nil {
		if err := r.fault(call); err != nil {
			return err
		}
	}
	return do()
}

func ask[T any](r *Conn, call string, do func() (T, error)) (answer T, err error) {
	err = r.try(call, func() error {
		answer, err = do()
		return err
	})
	return answer, err
}

// Requests that use the netlink package.

// tryHandle is try with the connection of the netlink package.
func (r *Conn) tryHandle(call string, do func(*netlink.Handle) error) error {
	return r.try(call, func() error {
		h, err := r.handle.open()
		if err != nil {
			return err
		}
		return do(h)
	})
}

// askHandle is ask with the connection of the netlink package.
func askHandle[T any](r *Conn, call string, do func(*netlink.Handle) (T, error)) (answer T, err error) {
	err = r.tryHandle(call, func(h *netlink.Handle) error {
		answer, err = do(h)
		return err
	})
	return answer, err
}

func (r *Conn) LinkAdd(l netlink.Link) error {
	return r.tryHandle("LinkAdd", func(h *netlink.Handle) error { return h.LinkAdd(l) })
}

func (r *Conn) SetPromiscOn(l netlink.Link) error {
	return r.tryHandle("SetPromiscOn", func(h *netlink.Handle) error { return h.SetPromiscOn(l) })
}

func (r *Conn) SetPromiscOff(l netlink.Link) error {
	return r.tryHandle("SetPromiscOff", func(h *netlink.Handle) error { return h.SetPromiscOff(l) })
}

func (r *Conn) NeighAppend(n *netlink.Neigh) error {
	return r.tryHandle("NeighAppend", func(h *netlink.Handle) error { return h.NeighAppend(n) })
}

func (r *Conn) NeighSet(n *netlink.Neigh) error {
	return r.tryHandle("NeighSet", func(h *netlink.Handle) error { return h.NeighSet(n) })
}

func (r *Conn) NeighDel(n *netlink.Neigh) error {
	return r.tryHandle("NeighDel", func(h *netlink.Handle) error { return h.NeighDel(n) })
}

func (r *Conn) NeighList(index, family int) ([]netlink.Neigh, error) {
	return askHandle(r, "NeighList", func(h *netlink.Handle) ([]netlink.Neigh, error) { return h.NeighList(index, family) })
}

func (r *Conn) RouteReplace(route *netlink.Route) error {
	return r.tryHandle("RouteReplace", func(h *netlink.Handle) error { return h.RouteReplace(route) })
}

func (r *Conn) RouteDel(route *netlink.Route) error {
	return r.tryHandle("RouteDel", func(h *netlink.Handle) error { return h.RouteDel(route) })
}

func (r *Conn) RouteGet(to net.IP) ([]netlink.Route, error) {
	return askHandle(r, "RouteGet", func(h *netlink.Handle) ([]netlink.Route, error) { return h.RouteGet(to) })
}

func (r *Conn) RouteGetWithOptions(to net.IP, o *netlink.RouteGetOptions) ([]netlink.Route, error) {
	return askHandle(r, "RouteGetWithOptions", func(h *netlink.Handle) ([]netlink.Route, error) { return h.RouteGetWithOptions(to, o) })
}

func (r *Conn) RouteListFiltered(family int, filter *netlink.Route, mask uint64) ([]netlink.Route, error) {
	return askHandle(r, "RouteListFiltered", func(h *netlink.Handle) ([]netlink.Route, error) { return h.RouteListFiltered(family, filter, mask) })
}

func (r *Conn) RuleAdd(rule *netlink.Rule) error {
	return r.tryHandle("RuleAdd", func(h *netlink.Handle) error { return h.RuleAdd(rule) })
}

func (r *Conn) RuleDel(rule *netlink.Rule) error {
	return r.tryHandle("RuleDel", func(h *netlink.Handle) error { return h.RuleDel(rule) })
}

func (r *Conn) RuleList(family int) ([]netlink.Rule, error) {
	return askHandle(r, "RuleList", func(h *netlink.Handle) ([]netlink.Rule, error) { return h.RuleList(family) })
}

func (r *Conn) QdiscAdd(q netlink.Qdisc) error {
	return r.tryHandle("QdiscAdd", func(h *netlink.Handle) error { return h.QdiscAdd(q) })
}

func (r *Conn) QdiscDel(q netlink.Qdisc) error {
	return r.tryHandle("QdiscDel", func(h *netlink.Handle) error { return h.QdiscDel(q) })
}

func (r *Conn) QdiscList(l netlink.Link) ([]netlink.Qdisc, error) {
	return askHandle(r, "QdiscList", func(h *netlink.Handle) ([]netlink.Qdisc, error) { return h.QdiscList(l) })
}

func (r *Conn) FilterAdd(f netlink.Filter) error {
	return r.tryHandle("FilterAdd", func(h *netlink.Handle) error { return h.FilterAdd(f) })
}

func (r *Conn) FilterDel(f netlink.Filter) error {
	return r.tryHandle("FilterDel", func(h *netlink.Handle) error { return h.FilterDel(f) })
}

func (r *Conn) FilterList(l netlink.Link, parent uint32) ([]netlink.Filter, error) {
	return askHandle(r, "FilterList", func(h *netlink.Handle) ([]netlink.Filter, error) { return h.FilterList(l, parent) })
}
