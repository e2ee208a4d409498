package foreign

import (
	"bytes"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/xtables"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// legacy adds the filters of iptables-legacy, converted to nftables. The kernel runs both: a packet
// must pass all.
func (r *Ruleset) legacy() error {
	for _, f := range []struct {
		xtables.Family
		nft nftables.TableFamily
	}{{xtables.IPv4, nftables.TableFamilyIPv4}, {xtables.IPv6, nftables.TableFamilyIPv6}} {
		names, err := xtables.InUse(f.Family)
		if err != nil {
			return fmt.Errorf("listing the tables of iptables-legacy: %w", err)
		}
		for _, name := range names {
			kind := nftables.ChainTypeFilter
			if name == "nat" {
				kind = nftables.ChainTypeNAT
			}
			read, err := xtables.Read(f.Family, name)
			if err != nil {
				return fmt.Errorf("iptables-legacy: %w", err)
			}
			table := &nftables.Table{Family: f.nft, Name: name + " of iptables-legacy"}
			for _, c := range read.Chains {
				if kind == nftables.ChainTypeNAT && ofKubeProxy("", c.Name) {
					continue
				}
				chain := &nftables.Chain{Table: table, Name: c.Name, Type: kind}
				for _, rule := range c.Rules {
					as := translated(f.nft, rule)
					r.rules[key(table, c.Name)] = append(r.rules[key(table, c.Name)], as)
					r.note(as)
					if name == "raw" && zones(as) {
						r.noteLegacyZone(c, as)
					}
				}
				if c.Base {
					hook, policy := nftables.ChainHook(c.Hook), nftables.ChainPolicyAccept
					if c.Drop {
						policy = nftables.ChainPolicyDrop
					}
					chain.Hooknum, chain.Policy = &hook, &policy
					if kind == nftables.ChainTypeNAT && Hook(hook) == Input {
						continue
					}
					r.bases = append(r.bases, base{Chain: chain, hook: Hook(hook)})
				}
			}
		}
	}
	return nil
}

// noteLegacyZone records a rule that assigns a conntrack zone. Chains of users count at both hooks.
func (r *Ruleset) noteLegacyZone(c xtables.Chain, rule *nftables.Rule) {
	for _, hook := range []Hook{Prerouting, Output} {
		if !c.Base || Hook(c.Hook) == hook {
			r.zoning[hook] = append(r.zoning[hook], rule)
		}
	}
}

// translated converts a rule of iptables-legacy to nftables.
func translated(family nftables.TableFamily, r *xtables.Rule) *nftables.Rule {
	const register = 1
	var exprs []expr.Any
	compare := func(inverted uint8, data []byte) {
		op := expr.CmpOpEq
		if r.Inverted&inverted != 0 {
			op = expr.CmpOpNeq
		}
		exprs = append(exprs, &expr.Cmp{Op: op, Register: register, Data: data})
	}
	src, dst := uint32(12), uint32(16)
	if family == nftables.TableFamilyIPv6 {
		src, dst = 8, 24
	}
	for _, a := range []struct {
		offset     uint32
		addr, mask []byte
		inverted   uint8
	}{{src, r.Src, r.SrcMask, xtables.InvertedSrc}, {dst, r.Dst, r.DstMask, xtables.InvertedDst}} {
		zero := make([]byte, len(a.mask))
		if bytes.Equal(a.mask, zero) && r.Inverted&a.inverted == 0 {
			continue
		}
		exprs = append(exprs,
			&expr.Payload{OperationType: expr.PayloadLoad, DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: a.offset, Len: uint32(len(a.addr))},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: uint32(len(a.addr)), Mask: a.mask, Xor: zero})
		compare(a.inverted, a.addr)
	}
	for _, d := range []struct {
		key      expr.MetaKey
		name     string
		inverted uint8
	}{{expr.MetaKeyIIFNAME, r.In, xtables.InvertedIn}, {expr.MetaKeyOIFNAME, r.Out, xtables.InvertedOut}} {
		if d.name != "" || r.Inverted&d.inverted != 0 {
			exprs = append(exprs, &expr.Meta{Key: d.key, Register: register})
			compare(d.inverted, []byte(d.name))
		}
	}
	if r.Protocol != 0 {
		exprs = append(exprs, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register})
		compare(xtables.InvertedProtocol, []byte{r.Protocol})
	}
	if r.Fragments {
		exprs = append(exprs, &expr.Match{Name: "frag", Info: &xt.Unknown{}})
	}
	for _, m := range r.Matches {
		info, err := xt.Unmarshal(m.Name, xt.TableFamily(family), uint32(m.Revision), m.Data)
		if err != nil {
			info = &xt.Unknown{}
		}
		exprs = append(exprs, &expr.Match{Name: m.Name, Rev: uint32(m.Revision), Info: info})
	}
	if r.Target.Name != "" {
		info := xt.Unknown(r.Target.Data)
		return &nftables.Rule{Exprs: append(exprs, &expr.Target{Name: r.Target.Name, Rev: uint32(r.Target.Revision), Info: &info})}
	}
	kind := map[xtables.Verdict]expr.VerdictKind{
		xtables.Drop: expr.VerdictDrop, xtables.Accept: expr.VerdictAccept, xtables.Return: expr.VerdictReturn,
		xtables.Jump: expr.VerdictJump, xtables.Goto: expr.VerdictGoto,
	}[r.Verdict]
	return &nftables.Rule{Exprs: append(exprs, &expr.Verdict{Kind: kind, Chain: r.Chain})}
}
