package pathexplain

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// open opens the network namespace of a pod. The caller closes both results.
func (pod *Pod) open() (*namespace.Namespace, *netlink.Handle, error) {
	ns, err := namespace.Open(pod.NetNS)
	if err != nil {
		return nil, nil, fmt.Errorf("opening its network namespace failed: %w: the pod has stopped, or the runtime lost it", err)
	}
	h, err := netlink.NewHandleAt(ns.Handle)
	if err != nil {
		ns.Close()
		return nil, nil, fmt.Errorf("reading its network namespace failed: %w", err)
	}
	return ns, h, nil
}

// pod checks the configuration in a pod's network namespace. It returns the pod's interface towards
// other; with several interfaces, it may differ from the one with the address. all includes all
// interfaces of the pod.
func (r *Report) pod(pod *Pod, all []Pod, addr, other netip.Addr) *Pod {
	where := "pod " + pod.Name
	ns, h, err := pod.open()
	if err != nil {
		r.find(where, err.Error())
		return pod
	}
	defer ns.Close()
	defer h.Close()
	link, err := h.LinkByName(pod.Interface)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		r.find(where, fmt.Sprintf("interface %s is missing in the pod's network namespace: delete the pod to recreate it", pod.Interface))
		return pod
	case err != nil:
		r.find(where, fmt.Sprintf("reading its interface %s failed: %v", pod.Interface, err))
		return pod
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		r.find(where, fmt.Sprintf("its interface %s is down", pod.Interface))
	} else if !carrier(link) {
		r.find(where, fmt.Sprintf("its interface %s has no carrier: the peer on the node is down or missing", pod.Interface))
	}
	addrs, err := h.AddrList(link, netlink.FAMILY_ALL)
	has := false
	for _, a := range addrs {
		if own, ok := netip.AddrFromSlice(a.IP); ok && own.Unmap() == addr {
			has = true
		}
	}
	if err == nil && !has {
		r.find(where, fmt.Sprintf("its interface %s does not have the address %v", pod.Interface, addr))
	}
	if other == addr {
		r.Way = append(r.Way, fmt.Sprintf("%s: %v, to itself", where, addr))
		return pod
	}
	options := &netlink.RouteGetOptions{}
	if has {
		options.SrcAddr = addr.AsSlice() // policy rules may match it
	}
	routes, err := h.RouteGetWithOptions(other.AsSlice(), options)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EACCES), errors.Is(err, unix.EHOSTUNREACH):
		r.find(where, fmt.Sprintf("a route or policy rule in the pod blocks packets to %v (%v): see `ip route` and `ip rule` in its network namespace", other, err))
		return pod
	case err != nil || len(routes) == 0:
		r.find(where, fmt.Sprintf("it has no route to %v (%v): its default route is missing", other, err))
		return pod
	}
	leave := pod
	if routes[0].LinkIndex != link.Attrs().Index {
		out := fmt.Sprint("device ", routes[0].LinkIndex)
		if l, err := h.LinkByIndex(routes[0].LinkIndex); err == nil {
			out = l.Attrs().Name
		}
		i := slices.IndexFunc(all, func(p Pod) bool { return p.Name == pod.Name && p.Interface == out })
		if i < 0 {
			r.find(where, fmt.Sprintf("it sends packets to %v through %s instead of %s", other, out, pod.Interface))
			return pod
		}
		leave = &all[i]
		strict := false
		_ = ns.Run(func() error { strict = strictReversePath(pod.Interface); return nil })
		if strict && addr.Is4() {
			r.find(where, fmt.Sprintf("packets from %v are dropped on arrival at %s, because its rp_filter is 1, and its return route leads to %s: set net.ipv4.conf.%s.rp_filter to 2 in the pod", other, pod.Interface, out, pod.Interface))
		}
	}
	r.Way = append(r.Way, fmt.Sprintf("%s: %v, out of %s %v", where, addr, leave.Interface, via(routes[0])))
	return leave
}

func via(route netlink.Route) string {
	if len(route.Gw) > 0 {
		return "via " + route.Gw.String()
	}
	return "directly"
}

// carrier reports whether the device has a link.
func carrier(link netlink.Link) bool {
	const lowerUp = 1 << 16
	return link.Attrs().RawFlags&lowerUp != 0
}
