package vrf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Packets that arrive on a guest are marked with its VRF. The rules need the mark for the
// kernel's replies: echo replies, ICMP errors, TCP. Source validation needs it, too, because an
// address of VRF 0 may belong to another host in another VRF (src_valid_mark).
//
//	table inet contiv-vrf   map IPv4 { "eth0" : 0x79000005 }, map IPv6, chain in
//	table arp contiv-vrf    map IPv4, chain in

const (
	vrfTableName = "contiv-vrf"
	// markChain has a rule per map, with the map's name as its comment.
	markChain = "in"
)

var markTables = []struct {
	family byte
	hook   *nftables.ChainHook
	maps   map[string]int
}{
	{unix.NFPROTO_INET, nftables.ChainHookPrerouting, map[string]int{"IPv4": unix.AF_INET, "IPv6": unix.AF_INET6}},
	{unix.NFPROTO_ARP, nftables.ChainHookRef(0), map[string]int{"IPv4": unix.AF_INET}},
}

// beforeAll is a priority before connection tracking.
const beforeAll = -310

type marks map[string]uint32

func (v *rules) writeMarks() error {
	v.marks.Lock()
	defer v.marks.Unlock()
	v.mu.Lock()
	wanted := map[int]marks{}
	for _, family := range ipFamilies {
		wanted[family] = v.last[family].guests
	}
	v.mu.Unlock()
	have, err := v.readMarks()
	if err != nil {
		return err
	}
	none := len(wanted[unix.AF_INET])+len(wanted[unix.AF_INET6]) == 0
	if none == (have == nil) && (none || have.equal(wanted)) {
		return nil
	}
	var batches []*nft.Batch
	for _, t := range markTables {
		batch := &nft.Batch{Table: vrfTableName, Family: t.family}
		batch.AddTable()
		batch.DeleteTable()
		if !none {
			addMarkTable(batch, t.hook, t.maps, wanted)
		}
		batches = append(batches, batch)
	}
	err = v.NFT.Locked(func() error { return v.NFT.Commit(batches...) })
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return vswitch.Unsupported("interfaces in VRFs: this Linux kernel refuses to mark their packets (%v): "+
			"it needs the options CONFIG_NF_TABLES_INET and CONFIG_NF_TABLES_ARP", err)
	}
	if err != nil {
		return fmt.Errorf("writing nftables table %q: %w", vrfTableName, err)
	}
	return nil
}

func addMarkTable(b *nft.Batch, hook *nftables.ChainHook, versions map[string]int, wanted map[int]marks) {
	b.AddTable()
	b.AddChain(&nftables.Chain{Name: markChain, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRef(beforeAll)})
	for name, family := range versions {
		b.AddSet(&nftables.Set{Name: name, IsMap: true, KeyType: nftables.TypeIFName, DataType: nftables.TypeMark})
		var elements []nft.Element
		for device, vrf := range wanted[family] {
			key := make([]byte, unix.IFNAMSIZ)
			copy(key, device)
			elements = append(elements, nft.Element{Set: name, Key: string(key), Data: string(binary.NativeEndian.AppendUint32(nil, mark|vrf))})
		}
		b.AddElements(nft.Sorted(elements))
		var words []expr.Any
		if b.Family == unix.NFPROTO_INET {
			words = append(words,
				&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(family)}})
		}
		words = append(words,
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
			&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: name},
			&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true})
		b.AddRule(markChain, name, nft.Words(words...))
	}
}

type markState map[byte]map[int]marks

func (s markState) equal(wanted map[int]marks) bool {
	for _, t := range markTables {
		for _, version := range t.maps {
			if have := s[t.family][version]; have == nil || !maps.Equal(have, wanted[version]) {
				return false
			}
		}
	}
	return true
}

func (s markState) has(family int, device string, vrf uint32) bool {
	for _, t := range markTables {
		for _, version := range t.maps {
			if version == family && s[t.family][version][device] != vrf {
				return false
			}
		}
	}
	return true
}

// readMarks returns nil if no marks exist. A damaged table counts as one without marks.
func (v *rules) readMarks() (state markState, err error) {
	for _, t := range markTables {
		table, _, err := v.NFT.ReadTable(t.family, vrfTableName)
		if err != nil {
			return nil, fmt.Errorf("reading nftables table %q: %w", vrfTableName, err)
		}
		if table == nil {
			continue
		}
		chain := table.Chains[markChain]
		if chain.Hook == nil {
			continue
		}
		if state == nil {
			state = markState{}
		}
		if !chain.Hook.Drops && slices.Equal(slices.Sorted(slices.Values(chain.Rules)), slices.Sorted(maps.Keys(t.maps))) {
			state[t.family] = marksIn(table, t.maps)
		}
	}
	return state, nil
}

func marksIn(table *nft.Table, versions map[string]int) map[int]marks {
	have := map[int]marks{}
	for name, family := range versions {
		set, exists := table.Sets[name]
		if !exists {
			continue
		}
		have[family] = marks{}
		for _, e := range set.Elements {
			if len(e.Data) >= 4 {
				have[family][unix.ByteSliceToString([]byte(e.Key))] = binary.NativeEndian.Uint32([]byte(e.Data)) &^ mark
			}
		}
	}
	return have
}

func (v *rules) dropMarks() error {
	if err := v.NFT.DropTables(vrfTableName, unix.NFPROTO_INET, unix.NFPROTO_ARP); err != nil {
		return fmt.Errorf("removing nftables table %q: %w", vrfTableName, err)
	}
	return nil
}
