package rtnl

import (
	"net"

	"github.com/vishvananda/netlink"
)

// Fault is asked before each request, dumps and those of [Conn.Request] included, and may
// refuse it in place of the kernel, which never sees it: with EBUSY, ENOBUFS, or for
// dumps netlink.ErrDumpInterrupted. call is the name of the method; for requests of Conn
// itself "Do" if they change something, "Execute" if they read.
type Fault func(call string) error

// InjectFaults has all further requests ask the function, nil: none. It is for tests, and
// to be called while no request is under way.
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

// The requests of netlink.Handle that Contiv makes.

func (r *Conn) LinkAdd(l netlink.Link) error {
	return r.try("LinkAdd", func() error { return r.Handle.LinkAdd(l) })
}

func (r *Conn) GetNetNsIdByFd(fd int) (int, error) {
	return ask(r, "GetNetNsIdByFd", func() (int, error) { return r.Handle.GetNetNsIdByFd(fd) })
}

func (r *Conn) SetNetNsIdByFd(fd, id int) error {
	return r.try("SetNetNsIdByFd", func() error { return r.Handle.SetNetNsIdByFd(fd, id) })
}

func (r *Conn) NeighAppend(n *netlink.Neigh) error {
	return r.try("NeighAppend", func() error { return r.Handle.NeighAppend(n) })
}

func (r *Conn) NeighSet(n *netlink.Neigh) error {
	return r.try("NeighSet", func() error { return r.Handle.NeighSet(n) })
}

func (r *Conn) NeighDel(n *netlink.Neigh) error {
	return r.try("NeighDel", func() error { return r.Handle.NeighDel(n) })
}

func (r *Conn) NeighList(index, family int) ([]netlink.Neigh, error) {
	return ask(r, "NeighList", func() ([]netlink.Neigh, error) { return r.Handle.NeighList(index, family) })
}

func (r *Conn) RouteAdd(route *netlink.Route) error {
	return r.try("RouteAdd", func() error { return r.Handle.RouteAdd(route) })
}

func (r *Conn) RouteReplace(route *netlink.Route) error {
	return r.try("RouteReplace", func() error { return r.Handle.RouteReplace(route) })
}

func (r *Conn) RouteDel(route *netlink.Route) error {
	return r.try("RouteDel", func() error { return r.Handle.RouteDel(route) })
}

func (r *Conn) RouteGet(to net.IP) ([]netlink.Route, error) {
	return ask(r, "RouteGet", func() ([]netlink.Route, error) { return r.Handle.RouteGet(to) })
}

func (r *Conn) RouteGetWithOptions(to net.IP, o *netlink.RouteGetOptions) ([]netlink.Route, error) {
	return ask(r, "RouteGetWithOptions", func() ([]netlink.Route, error) { return r.Handle.RouteGetWithOptions(to, o) })
}

func (r *Conn) RouteListFiltered(family int, filter *netlink.Route, mask uint64) ([]netlink.Route, error) {
	return ask(r, "RouteListFiltered", func() ([]netlink.Route, error) { return r.Handle.RouteListFiltered(family, filter, mask) })
}

func (r *Conn) RuleAdd(rule *netlink.Rule) error {
	return r.try("RuleAdd", func() error { return r.Handle.RuleAdd(rule) })
}

func (r *Conn) RuleDel(rule *netlink.Rule) error {
	return r.try("RuleDel", func() error { return r.Handle.RuleDel(rule) })
}

func (r *Conn) RuleList(family int) ([]netlink.Rule, error) {
	return ask(r, "RuleList", func() ([]netlink.Rule, error) { return r.Handle.RuleList(family) })
}

func (r *Conn) QdiscAdd(q netlink.Qdisc) error {
	return r.try("QdiscAdd", func() error { return r.Handle.QdiscAdd(q) })
}

func (r *Conn) QdiscDel(q netlink.Qdisc) error {
	return r.try("QdiscDel", func() error { return r.Handle.QdiscDel(q) })
}

func (r *Conn) QdiscList(l netlink.Link) ([]netlink.Qdisc, error) {
	return ask(r, "QdiscList", func() ([]netlink.Qdisc, error) { return r.Handle.QdiscList(l) })
}

func (r *Conn) FilterAdd(f netlink.Filter) error {
	return r.try("FilterAdd", func() error { return r.Handle.FilterAdd(f) })
}

func (r *Conn) FilterDel(f netlink.Filter) error {
	return r.try("FilterDel", func() error { return r.Handle.FilterDel(f) })
}

func (r *Conn) FilterList(l netlink.Link, parent uint32) ([]netlink.Filter, error) {
	return ask(r, "FilterList", func() ([]netlink.Filter, error) { return r.Handle.FilterList(l, parent) })
}
