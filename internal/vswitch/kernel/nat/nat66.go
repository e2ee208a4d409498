package nat

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// nat66 translates the sources of IPv6 packets in one chain, with a rule per interface.
type nat66 struct{ *Driver }

// SourceNAT66 returns the port for source NAT of IPv6.
func (v *Driver) SourceNAT66() vswitch.NAT66 { return nat66{v} }

const chainNAT66 = "nat66-postrouting"

type source66 struct {
	device, name string
	addr         netip.Addr
}

type rule66 struct{ rule, comment string }

func (s source66) rule() rule66 {
	return rule66{fmt.Sprintf("oifname %q snat to %s", s.device, s.addr), fmt.Sprintf("source %s %s %s", s.addr, s.device, s.name)}
}

func parseSource66(comment string) (s source66, ok bool) {
	fields := strings.Fields(comment)
	if len(fields) != 4 || fields[0] != "source" {
		return s, false
	}
	addr, err := netip.ParseAddr(fields[1])
	return source66{addr: addr, device: fields[2], name: fields[3]}, err == nil
}

func rules66(sources []source66) []rule66 {
	if len(sources) == 0 {
		return nil
	}
	list := []rule66{{"fib saddr type local return", "packets of the node itself"}}
	for _, s := range sources {
		list = append(list, s.rule())
	}
	return list
}

func (v nat66) read() (sources []source66, intact bool, err error) {
	table, err := v.NFT.Layout(unix.NFPROTO_IPV6, natTable)
	if err != nil {
		return nil, false, err
	}
	var chain nft.Chain
	if table != nil {
		chain = table.Chains[chainNAT66]
	}
	for _, comment := range chain.Rules {
		if s, ok := parseSource66(comment); ok {
			sources = append(sources, s)
		}
	}
	var want []string
	for _, r := range rules66(sources) {
		want = append(want, r.comment)
	}
	return sources, chain.Hook != nil && !chain.Hook.Drops && slices.Equal(chain.Rules, want), nil
}

// change rewrites the chain if edit changes the sources.
func (v nat66) change(edit func([]source66) []source66) error {
	return v.NFT.Locked(func() error {
		before, intact, err := v.read()
		if err != nil {
			return err
		}
		after := edit(slices.Clone(before))
		if intact && slices.Equal(before, after) {
			return nil
		}
		return v.NFT.Commit(batch66(after))
	})
}

func batch66(sources []source66) *nft.Batch {
	b := &nft.Batch{Table: natTable, Family: unix.NFPROTO_IPV6}
	b.AddTable()
	b.AddChain(&nftables.Chain{
		Name: chainNAT66, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, r := range rules66(sources) {
		b.AddText(chainNAT66, r.comment, r.rule)
	}
	if len(sources) == 0 {
		b.DeleteChain(chainNAT66)
	}
	return b
}

func without(sources []source66, name string) []source66 {
	return slices.DeleteFunc(sources, func(s source66) bool { return s.name == name })
}

func (v nat66) Create(ctx context.Context, source *contiv_nat.SourceNAT66) error {
	if err := v.EnableForwarding6(); err != nil {
		return err
	}
	name := source.GetInterface()
	if !fitsComment(name) {
		return vswitch.Unsupported("NAT on interface %q: use letters, digits and -_./: only in its name", name)
	}
	addr, err := netip.ParseAddr(source.GetAddress())
	if err != nil {
		return err
	}
	link, err := v.Link(name)
	if err == nil {
		err = v.change(func(sources []source66) []source66 {
			return append(without(sources, name), source66{link.Attrs().Name, name, addr})
		})
	}
	if err != nil {
		return fmt.Errorf("translating IPv6 sources on interface %q: %w", name, err)
	}
	v.Reg.Put(source)
	return nil
}

func (v nat66) Delete(ctx context.Context, source *contiv_nat.SourceNAT66) error {
	err := v.change(func(sources []source66) []source66 { return without(sources, source.GetInterface()) })
	if err != nil {
		return fmt.Errorf("ending the translation of IPv6 sources on interface %q: %w", source.GetInterface(), err)
	}
	v.Reg.Remove(source)
	return nil
}

// List omits expected values if the chain is damaged, so that they are replaced.
func (v nat66) List(ctx context.Context, expected []*contiv_nat.SourceNAT66) ([]*contiv_nat.SourceNAT66, error) {
	var list []*contiv_nat.SourceNAT66
	err := v.NFT.Locked(func() error {
		sources, intact, err := v.read()
		for _, s := range sources {
			value := &contiv_nat.SourceNAT66{Interface: s.name, Address: s.addr.String()}
			wanted := slices.ContainsFunc(expected, func(e *contiv_nat.SourceNAT66) bool { return e.GetInterface() == s.name })
			if intact || !wanted {
				list = append(list, value)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading nftables table %q: %w", natTable, err)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}
