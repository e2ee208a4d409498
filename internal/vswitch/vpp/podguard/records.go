package podguard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/acl"
	"go.fd.io/govpp/binapi/acl_types"
)

var recordModule = session.NewModule("acl_plugin.so", "source guards",
	&acl.ACLAddReplace{}, &acl.ACLAddReplaceReply{}, &acl.ACLDel{}, &acl.ACLDelReply{}, &acl.ACLDump{}, &acl.ACLDetails{},
)

// A record is an unbound access list. Its tag names the interface. The source of its first rule is
// the link-local address of the MAC address, and the sources of the other rules are the IP
// addresses. Tags of package acl have another prefix.
const (
	recordTag     = "contiv-guard/"
	longRecordTag = "contiv-guard#"
)

func recordTagOf(iface string) string {
	if tag := recordTag + iface; len(tag) <= ownership.MaxTag {
		return tag
	}
	sum := sha256.Sum256([]byte(iface))
	return longRecordTag + hex.EncodeToString(sum[:16])
}

type record struct {
	id    uint32
	mac   net.HardwareAddr
	addrs []netip.Addr // without the link-local one
}

func linkLocalOf(mac net.HardwareAddr) netip.Addr { return vswitch.LinkLocal([6]byte(mac)) }

func (r *record) all() []netip.Addr { return append([]netip.Addr{linkLocalOf(r.mac)}, r.addrs...) }

// recordOf is the inverse of value.
func recordOf(v *guard.SourceGuard) (*record, error) {
	mac, err := net.ParseMAC(v.GetMacAddress())
	if err != nil {
		return nil, err
	}
	r := &record{id: none, mac: mac}
	for _, a := range vswitch.GuardedAddresses(v) {
		if a != linkLocalOf(mac) {
			r.addrs = append(r.addrs, a)
		}
	}
	return r, nil
}

func (r *record) value(iface string) *guard.SourceGuard {
	v := &guard.SourceGuard{Interface: iface, MacAddress: r.mac.String()}
	for _, a := range r.addrs {
		v.IpAddresses = append(v.IpAddresses, a.String())
	}
	return v
}

func (r *record) rules() []acl_types.ACLRule {
	var rules []acl_types.ACLRule
	for _, a := range r.all() {
		rules = append(rules, acl_types.ACLRule{
			IsPermit:  acl_types.ACL_ACTION_API_PERMIT,
			SrcPrefix: convert.Prefix(netip.PrefixFrom(a, a.BitLen())), DstPrefix: convert.Prefix(vswitch.AnyNetwork(a.Is6())),
			SrcportOrIcmptypeLast: 65535, DstportOrIcmpcodeLast: 65535,
		})
	}
	return rules
}

// readRecord parses a list; nil if it is no record.
func readRecord(d *acl.ACLDetails) *record {
	if len(d.R) == 0 {
		return nil
	}
	var addrs []netip.Addr
	for _, rule := range d.R {
		addrs = append(addrs, convert.Addr(rule.SrcPrefix.Address))
	}
	eui := addrs[0].As16()
	mac := net.HardwareAddr{eui[8] ^ 2, eui[9], eui[10], eui[13], eui[14], eui[15]}
	if linkLocalOf(mac) != addrs[0] {
		return nil
	}
	return &record{id: d.ACLIndex, mac: mac, addrs: addrs[1:]}
}

func (g *Guards) put(ctx context.Context, iface string, r *record) error {
	var reply acl.ACLAddReplaceReply
	err := g.vpp.Call(ctx, recordModule, &acl.ACLAddReplace{ACLIndex: r.id, Tag: recordTagOf(iface), R: r.rules()}, &reply)
	if err != nil {
		return fmt.Errorf("recording it: %w", err)
	}
	r.id = reply.ACLIndex
	return nil
}

func (g *Guards) erase(ctx context.Context, r *record) error { return g.eraseList(ctx, r.id) }

func (g *Guards) eraseList(ctx context.Context, id uint32) error {
	err := g.vpp.Call(ctx, recordModule, &acl.ACLDel{ACLIndex: id}, &acl.ACLDelReply{})
	if err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return fmt.Errorf("deleting its record: %w", err)
	}
	return nil
}

// findRecords reads all records, by interface name; names that do not fit in tags must be among the
// known ones. It also returns the record of ranges, or nil.
func (g *Guards) findRecords(ctx context.Context, known map[string]string) (map[string]*record, *rangeRecord, error) {
	all, err := session.Dump[acl.ACLDetails](ctx, g.vpp, recordModule, &acl.ACLDump{ACLIndex: none})
	if err := session.IgnoreUnsupported("reading the records of source guards", err); err != nil {
		return nil, nil, err
	}
	records := map[string]*record{}
	var ranges *rangeRecord
	for _, d := range all {
		if strings.HasPrefix(d.Tag, rangesTag) {
			ranges = readRanges(d)
		}
		iface, ours := strings.CutPrefix(d.Tag, recordTag)
		if !ours && strings.HasPrefix(d.Tag, longRecordTag) {
			if iface, ours = known[d.Tag]; !ours {
				iface, ours = d.Tag, true
			}
		}
		if !ours {
			continue
		}
		r := readRecord(d)
		if r == nil {
			r = &record{id: d.ACLIndex} // without a MAC address it matches no request
		}
		records[iface] = r
	}
	return records, ranges, nil
}
