package pathexplain

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// passed returns the node's devices on the paths of the flows.
func passed(flows []flow, through map[string]bridged) (devices []string) {
	for _, f := range flows {
		for _, p := range f.hooks(through) {
			for _, device := range []string{p.In, p.Out} {
				if device != "" && !slices.Contains(devices, device) {
					devices = append(devices, device)
				}
			}
		}
	}
	return devices
}

// programs lists foreign programs, filters and queueing disciplines that may drop packets at a
// device of the thread's network namespace. Their effect is unknown.
func (e *Explainer) programs(h *netlink.Handle, device string) (texts []string) {
	link, err := h.LinkByName(device)
	if err != nil {
		return nil
	}
	say := func(what, show string) {
		texts = append(texts, fmt.Sprintf("packets may be dropped by %s, which is not evaluated: see `%s`", what, show))
	}
	if xdp := link.Attrs().Xdp; xdp != nil && xdp.Attached {
		say(fmt.Sprintf("an XDP program at device %s", device), fmt.Sprintf("bpftool prog show id %d", xdp.ProgId))
	}
	for side, parent := range map[string]uint32{"ingress": netlink.HANDLE_MIN_INGRESS, "egress": netlink.HANDLE_MIN_EGRESS} {
		filters, _ := h.FilterList(link, parent) // an unreadable list is not checked
		foreign := slices.ContainsFunc(filters, func(f netlink.Filter) bool {
			return e.o.OurFilter == nil || !e.o.OurFilter(f.Attrs().Priority)
		})
		if foreign {
			say(fmt.Sprintf("a filter of traffic control at device %s", device), fmt.Sprintf("tc filter show dev %s %s", device, side))
		}
	}
	for _, side := range []uint32{unix.BPF_TCX_INGRESS, unix.BPF_TCX_EGRESS} {
		if tcx(link.Attrs().Index, side) > 0 {
			say("a TCX program at device "+device, "bpftool net show dev "+device)
		}
	}
	qdiscs, _ := h.QdiscList(link)
	for _, q := range qdiscs {
		if kind := q.Type(); !harmless[kind] {
			say(fmt.Sprintf("the queueing discipline %s at device %s", kind, device), "tc -s qdisc show dev "+device)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// tcx returns the number of TCX programs in one direction of a device of the thread's network
// namespace; 0 if the kernel does not support them.
func tcx(device int, side uint32) uint32 {
	q := programQuery{device: uint32(device), side: side}
	if q.ask() != 0 {
		return 0
	}
	return q.count
}

// programQuery is union bpf_attr of BPF_PROG_QUERY. It has all members, because the kernel writes
// the revision whatever size it is given.
type programQuery struct {
	device, side, flags, attached uint32
	programs                      uint64
	count, _                      uint32
	programFlags, links           uint64
	linkFlags, revision           uint64
}

func (q *programQuery) ask() unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_QUERY, uintptr(unsafe.Pointer(q)), unsafe.Sizeof(*q))
	return errno
}

// harmless lists the queueing disciplines that drop packets only on overload, and those that only
// hold filters.
var harmless = map[string]bool{
	"noqueue": true, "pfifo": true, "bfifo": true, "pfifo_fast": true, "fq": true, "fq_codel": true, "mq": true, "mqprio": true, "clsact": true, "ingress": true,
	"cake": true, "codel": true, "fq_pie": true, "pie": true, "sfq": true, "prio": true,
}

// content checks for filters, programs and missing listeners in a pod's network namespace that may
// stop packets from or to the pod.
func (e *Explainer) content(r *Report, at end, q Question, isSource bool) {
	pod, where := at.pod, "pod "+at.pod.Name
	ns, h, err := pod.open()
	if err != nil {
		return // reported as a finding
	}
	defer ns.Close()
	defer h.Close()
	f := flow{what: fmt.Sprintf("packets from %v to %v", q.From, q.To), Packet: foreign.Packet{
		Src: q.From, Dst: q.To, Protocol: q.protocol(), SrcPort: q.sourcePort(), DstPort: q.Port, Size: e.o.MTU()}}
	answers := f.answers()
	if isSource {
		f.Out, answers.In = at.out.Interface, pod.Interface
	} else {
		f.In, answers.Out = pod.Interface, at.out.Interface
	}
	rules, err := foreign.Read(ns, func(string) bool { return false })
	if err != nil {
		r.find(where, fmt.Sprintf("filters in it cannot be read: %v", err))
		return
	}
	translated := false
	for _, one := range []flow{f, answers} {
		for _, text := range one.effects(rules, nil) {
			if foreign.Translated(text) { // as service meshes do
				r.Way, translated = append(r.Way, where+": "+text), true
			} else {
				r.find(where, text)
			}
		}
	}
	r.addUnjudged(where, unjudged([]flow{f, answers}, rules, nil))
	_ = ns.Run(func() error { r.addUnjudged(where, e.programs(h, pod.Interface)); return nil })
	if !isSource && (q.Protocol == "tcp" || q.Protocol == "udp") && !translated {
		_ = ns.Run(func() error {
			if text := unheard(q.To, q.Protocol, q.Port); text != "" {
				r.Unheard = &Finding{where, text}
			}
			return nil
		})
	}
}
