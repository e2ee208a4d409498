package redirect

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Cross-connects and mirrors are tc filters that match every frame:
//
//	frame received ──> copy (priority 120, goes on) ──> redirect (priority 121) ──> the stack
//	frame sent ──────> copy (priority 122, goes on) ──> the wire
//
// The priority is our mark. u32 is available in all kernels; it lists ingress and egress filters of
// the same priority together.

// Driver configures cross-connects and mirrors in one network namespace.
type Driver struct{ *own.Host }

// New returns a Driver, which needs no closing.
func New(host *own.Host) *Driver { return &Driver{host} }

type purpose uint16

const (
	copyReceived purpose = 120
	redirect     purpose = 121
	copySent     purpose = 122
)

// Ours reports whether filters with the priority are ours.
func Ours(priority uint16) bool {
	return priority == uint16(copyReceived) || priority == uint16(redirect) || priority == uint16(copySent)
}

func (p purpose) parent() uint32 {
	if p == copySent {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

type filter struct {
	index   int
	purpose purpose
	to      int
	handle  uint32 // set for filters from the kernel
}

func (f filter) same(g filter) bool {
	return f.index == g.index && f.purpose == g.purpose && f.to == g.to
}

func (f filter) attrs() netlink.FilterAttrs {
	return netlink.FilterAttrs{
		LinkIndex: f.index, Parent: f.purpose.parent(), Handle: f.handle, Priority: uint16(f.purpose), Protocol: unix.ETH_P_ALL,
	}
}

func (f filter) action() *netlink.MirredAction {
	a := netlink.NewMirredAction(f.to)
	if f.purpose != redirect {
		a.MirredAction = netlink.TCA_EGRESS_MIRROR
		a.Action = netlink.TC_ACT_UNSPEC
	}
	return a
}

func clsact(index int) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

func (v *Driver) addFilter(f filter) error {
	err := v.Net.QdiscAdd(clsact(f.index))
	switch {
	case err == nil || rtnl.Exists(err):
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("adding queueing discipline clsact to device %d: %w: it has another ingress qdisc "+
			"(see `tc qdisc`): remove that", f.index, err)
	default:
		return fmt.Errorf("adding queueing discipline clsact to device %d: %w", f.index, err)
	}
	err = v.Net.FilterAdd(&netlink.U32{FilterAttrs: f.attrs(), Actions: []netlink.Action{f.action()}})
	if err != nil {
		return fmt.Errorf("adding filter to device %d: %w", f.index, err)
	}
	return nil
}

// delFilter removes the filter, and the container of its priority and the queueing discipline once
// they are unused.
func (v *Driver) delFilter(f filter) error {
	err := v.Net.FilterDel(&netlink.U32{FilterAttrs: f.attrs()})
	if rest, restErr := v.filtersOf(f.index, f.purpose); err == nil && restErr == nil && len(rest) == 0 {
		f.handle = 0
		err = v.Net.FilterDel(&netlink.U32{FilterAttrs: f.attrs()})
	}
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("deleting filter of device %d: %w", f.index, err)
	}
	for _, side := range []purpose{copyReceived, copySent} {
		link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: f.index}}
		rest, err := rtnl.Dump(func() ([]netlink.Filter, error) { return v.Net.FilterList(link, side.parent()) })
		if err != nil || len(rest) > 0 {
			return rtnl.IgnoreGone(err)
		}
	}
	return rtnl.IgnoreGone(v.Net.QdiscDel(clsact(f.index)))
}

func (v *Driver) filters(purposes ...purpose) ([]filter, error) {
	qdiscs, err := rtnl.Dump(func() ([]netlink.Qdisc, error) { return v.Net.QdiscList(nil) })
	if err != nil {
		return nil, fmt.Errorf("reading queueing disciplines: %w", err)
	}
	var list []filter
	for _, q := range qdiscs {
		if q.Type() != "clsact" {
			continue
		}
		for _, p := range purposes {
			found, err := v.filtersOf(q.Attrs().LinkIndex, p)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

func (v *Driver) filtersOf(index int, p purpose) (list []filter, err error) {
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
	found, err := rtnl.Dump(func() ([]netlink.Filter, error) { return v.Net.FilterList(link, p.parent()) })
	switch {
	case rtnl.IsGone(err) || errors.Is(err, unix.EINVAL):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading filters of device %d: %w", index, err)
	}
	for _, e := range found {
		u32, ok := e.(*netlink.U32)
		if !ok || u32.Priority != uint16(p) || len(u32.Actions) != 1 {
			continue
		}
		f := filter{index: index, purpose: p, handle: u32.Handle}
		action, ok := u32.Actions[0].(*netlink.MirredAction)
		if ok && action.MirredAction == f.action().MirredAction {
			f.to = action.Ifindex
		}
		list = append(list, f)
	}
	return list, nil
}

func parseFilterEvent(data []byte) (index int, ours bool) {
	if len(data) < nl.SizeofTcMsg {
		return 0, false
	}
	msg := nl.DeserializeTcMsg(data)
	prio, _ := netlink.MajorMinor(msg.Info)
	return int(msg.Ifindex), purpose(prio) >= copyReceived && purpose(prio) <= copySent
}
