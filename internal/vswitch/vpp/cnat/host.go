package cnat

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// In VPP, nothing precedes the features on the host's interface. Flows of host processes are
// silenced in the host's kernel by routing rules that make the destination unreachable, only while
// needed. Priority and protocol mark our rules.

const (
	// maxOfHost is the maximum number of silenced flows of the host per IP version, because the
	// kernel evaluates the rules one by one.
	maxOfHost    = 64
	rulePriority = 127
	ruleProtocol = 121
)

// silenceHost sets the flows that the host must not send, and returns their number. Flows forwarded
// by the host are not its own and are not silenced.
func (v *Translations) silenceHost(flows []subsystem.Flow) (total int, err error) {
	h, err := hostdev.Of(v.vpp)
	switch {
	case err != nil && len(flows) > 0:
		return 0, err
	case err != nil: // a retry would fail in the same way
		v.log.Warn("Reading the host's routing rules for moved flows failed", "error", err)
		return 0, nil
	case h == nil:
		return 0, nil
	}
	defer h.Close()
	for f, number := range [...]int{v4: unix.AF_INET, v6: unix.AF_INET6} {
		list, err := ownFlows(h, number, family(f), flows)
		if err != nil {
			return 0, err
		}
		n, err := setRules(h, number, list)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// ForgetHost removes the rules from the network namespace at a path, in case VPP ended while rules
// existed.
func ForgetHost(path string) error {
	h, err := hostdev.Open(path)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, number := range []int{unix.AF_INET, unix.AF_INET6} {
		if _, err := setRules(h, number, nil); err != nil {
			return err
		}
	}
	return nil
}

// ownFlows returns the flows of an IP version that the host sends.
func ownFlows(h *hostdev.Namespace, number int, f family, flows []subsystem.Flow) (list []subsystem.Flow, err error) {
	if len(flows) == 0 {
		return nil, nil
	}
	own, err := addressesOf(h, number)
	if err != nil {
		return nil, err
	}
	for _, flow := range flows {
		if familyOf(flow.From.Addr()) == f && own[flow.From.Addr()] {
			list = append(list, flow)
		}
	}
	return list, nil
}

// addressesOf returns the host's addresses of one IP version or both.
func addressesOf(h *hostdev.Namespace, number int) (map[netip.Addr]bool, error) {
	list, err := h.AddrList(nil, number)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("reading addresses of the host: %w", err)
	}
	own := map[netip.Addr]bool{}
	for _, a := range list {
		addr, _ := netip.AddrFromSlice(a.IP)
		own[addr.Unmap()] = true
	}
	return own, nil
}

// terms are the criteria of a rule. The source is not one, because an unbound socket gets its
// source after the rules.
type terms struct {
	to   netip.AddrPort
	from uint16
	tcp  bool
}

func termsOf(f subsystem.Flow) terms { return terms{f.To, f.From.Port(), f.TCP} }

// readTerms reports whether a rule is ours, and its criteria; the zero value if it was changed by
// others.
func readTerms(r netlink.Rule) (t terms, ours bool) {
	if r.Priority != rulePriority || r.Protocol != ruleProtocol {
		return t, false
	}
	if r.Dst == nil || r.Sport == nil || r.Dport == nil {
		return t, true
	}
	to, _ := netip.AddrFromSlice(r.Dst.IP)
	return terms{netip.AddrPortFrom(to.Unmap(), r.Dport.Start), r.Sport.Start, r.IPProto == unix.IPPROTO_TCP}, true
}

// setRules sets our rules to the flows, at most maxOfHost, and returns their number.
func setRules(h *hostdev.Namespace, number int, flows []subsystem.Flow) (int, error) {
	rules, err := h.RuleList(number)
	if errors.Is(err, unix.EAFNOSUPPORT) && len(flows) == 0 { // of a kernel without IPv6
		return 0, nil
	}
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return 0, fmt.Errorf("reading rules of the host's routing: %w", err)
	}
	silent := map[terms]bool{}
	for _, r := range rules {
		if t, ours := readTerms(r); ours {
			silent[t] = true
		}
	}
	flows = subsystem.FirstFlows(flows, maxOfHost, func(f subsystem.Flow) bool { return silent[termsOf(f)] })
	wanted := map[terms]bool{}
	for _, f := range flows {
		wanted[termsOf(f)] = true
	}
	for _, r := range rules {
		t, ours := readTerms(r)
		if !ours {
			continue
		}
		if wanted[t] {
			delete(wanted, t)
			continue
		}
		r.Family = number
		if err := h.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
			return 0, fmt.Errorf("deleting a rule of the host's routing: %w", err)
		}
	}
	for t := range wanted {
		r := netlink.NewRule()
		r.Family, r.Priority, r.Protocol, r.Type, r.IPProto = number, rulePriority, ruleProtocol, unix.RTN_UNREACHABLE, unix.IPPROTO_UDP
		if t.tcp {
			r.IPProto = unix.IPPROTO_TCP
		}
		r.Dst = &net.IPNet{IP: t.to.Addr().AsSlice(), Mask: net.CIDRMask(t.to.Addr().BitLen(), t.to.Addr().BitLen())}
		r.Sport, r.Dport = netlink.NewRulePortRange(t.from, t.from), netlink.NewRulePortRange(t.to.Port(), t.to.Port())
		if err := h.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return 0, fmt.Errorf("adding a rule to the host's routing: %w", err)
		}
	}
	return len(flows), nil
}
