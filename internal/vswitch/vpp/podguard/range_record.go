package podguard

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/acl_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// rangesTag starts the tag of an unbound access list: for each frontend, rules that permit its
// sources, and one that denies all others. The rest of the tag is the name of the interface without
// a guard.
const rangesTag = "contiv-source-ranges/"

type rangeRecord struct {
	id        uint32
	frontends []vswitch.RestrictedFrontend
	iface     string
}

func (r *rangeRecord) rules() (rules []acl_types.ACLRule) {
	for _, f := range r.frontends {
		rule := acl_types.ACLRule{
			IsPermit:  acl_types.ACL_ACTION_API_PERMIT,
			DstPrefix: convert.Prefix(netip.PrefixFrom(f.Addr.Addr(), f.Addr.Addr().BitLen())), Proto: ip_types.IPProto(f.Protocol),
			SrcportOrIcmptypeLast: 65535, DstportOrIcmpcodeFirst: f.Addr.Port(), DstportOrIcmpcodeLast: f.Addr.Port(),
		}
		for _, p := range f.Sources {
			rule.SrcPrefix = convert.Prefix(p)
			rules = append(rules, rule)
		}
		rule.IsPermit, rule.SrcPrefix = acl_types.ACL_ACTION_API_DENY, convert.Prefix(vswitch.AnyNetwork(f.Addr.Addr().Is6()))
		rules = append(rules, rule)
	}
	return rules
}

func readRanges(d *acl.ACLDetails) *rangeRecord {
	r := &rangeRecord{id: d.ACLIndex, iface: strings.TrimPrefix(d.Tag, rangesTag)}
	var sources []netip.Prefix
	for _, rule := range d.R {
		if rule.IsPermit == acl_types.ACL_ACTION_API_PERMIT {
			sources = append(sources, convert.NetipPrefix(rule.SrcPrefix))
			continue
		}
		addr := netip.AddrPortFrom(convert.Addr(rule.DstPrefix.Address), rule.DstportOrIcmpcodeFirst)
		r.frontends = append(r.frontends, vswitch.RestrictedFrontend{Addr: addr, Protocol: uint8(rule.Proto), Sources: sources})
		sources = nil
	}
	return r
}

func (g *Guards) putRanges(ctx context.Context, r *rangeRecord) error {
	var reply acl.ACLAddReplaceReply
	if err := g.vpp.Call(ctx, recordModule, &acl.ACLAddReplace{ACLIndex: r.id, Tag: rangesTag + r.iface, R: r.rules()}, &reply); err != nil {
		return fmt.Errorf("recording it: %w", err)
	}
	r.id = reply.ACLIndex
	return nil
}
