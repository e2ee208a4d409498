package vrf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"

	"github.com/contiv/contiv/vswitch"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// What comes in on a device in a VRF is marked with the VRF. Rules need no marks for
// that packet, but for those that the kernel answers it with: echo replies, ICMP
// errors, TCP. And where the source of a packet is checked, an address of VRF 0 may
// be one of somebody else in another VRF (src_valid_mark).
//
//	table inet contiv-vrf   map IPv4 { "c-tap1" : 0x79000005 }, map IPv6, chain in
//	table arp contiv-vrf    map IPv4, chain in

const vrfTableName = "contiv-vrf"

// markTables are ours, by family.
var markTables = []struct {
	family nftables.TableFamily
	hook   *nftables.ChainHook
	maps   map[string]int // IP version
}{
	{nftables.TableFamilyINet, nftables.ChainHookPrerouting, map[string]int{"IPv4": unix.AF_INET, "IPv6": unix.AF_INET6}},
	{nftables.TableFamilyARP, nftables.ChainHookRef(0), map[string]int{"IPv4": unix.AF_INET}}, // NF_ARP_IN
}

// beforeAll is a priority before connections are tracked.
const beforeAll = -310

// marks are the devices with the VRFs that their packets are marked with.
type marks map[string]uint32

// writeMarks makes the marks those of the members, whatever they are now.
func (v *Driver) writeMarks() error {
	v.vrf.marks.Lock()
	defer v.vrf.marks.Unlock()
	v.vrf.mu.Lock()
	wanted := map[int]marks{}
	for _, family := range IPFamilies {
		wanted[family] = maps.Clone(v.vrf.last[family].members)
	}
	v.vrf.mu.Unlock()
	have, err := v.readMarks()
	if err != nil {
		return err
	}
	none := len(wanted[unix.AF_INET])+len(wanted[unix.AF_INET6]) == 0
	if none == (have == nil) && (none || have.equal(wanted)) {
		return nil
	}
	err = v.NFT.Do(func(c *nftables.Conn) error {
		for _, t := range markTables {
			table := &nftables.Table{Name: vrfTableName, Family: t.family}
			c.AddTable(table)
			c.DelTable(table)
			if !none {
				addMarkTable(c, table, t.hook, t.maps, wanted)
			}
		}
		return v.NFT.Gen.Own(c.Flush, "inet "+vrfTableName, "arp "+vrfTableName)
	})
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return vswitch.Unsupported("interfaces in VRFs: this Linux kernel refuses to mark their packets (%v): "+
			"it needs the options CONFIG_NF_TABLES_INET and CONFIG_NF_TABLES_ARP", err)
	}
	if err != nil {
		return fmt.Errorf("writing nftables table %q: %w", vrfTableName, err)
	}
	return nil
}

func addMarkTable(c *nftables.Conn, table *nftables.Table, hook *nftables.ChainHook, versions map[string]int, wanted map[int]marks) {
	c.AddTable(table)
	chain := c.AddChain(&nftables.Chain{
		Name: "in", Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRef(beforeAll),
	})
	for name, family := range versions {
		set := &nftables.Set{Table: table, Name: name, IsMap: true, KeyType: nftables.TypeIFName, DataType: nftables.TypeMark}
		var elements []nftables.SetElement
		for device, vrf := range wanted[family] {
			key := make([]byte, unix.IFNAMSIZ)
			copy(key, device)
			elements = append(elements, nftables.SetElement{Key: key, Val: binary.NativeEndian.AppendUint32(nil, Mark|vrf)})
		}
		if err := c.AddSet(set, elements); err != nil {
			continue // told by Flush
		}
		var exprs []expr.Any
		if table.Family == nftables.TableFamilyINet {
			exprs = append(exprs,
				&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(family)}})
		}
		exprs = append(exprs,
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
			&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: set.Name, SetID: set.ID},
			&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
	}
}

// markState is what the tables say, by family of tables and IP version.
type markState map[nftables.TableFamily]map[int]marks

// equal reports whether everything is marked as wanted.
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

// has reports whether what the device receives is marked with the VRF.
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

// readMarks returns nil if there are none. A table that somebody has changed has none.
func (v *Driver) readMarks() (state markState, err error) {
	err = v.NFT.Do(func(c *nftables.Conn) error {
		state = nil
		for _, t := range markTables {
			chains, err := c.ListChainsOfTableFamily(t.family)
			if err != nil {
				return err
			}
			for _, chain := range chains {
				if chain.Table.Name != vrfTableName || chain.Name != "in" || chain.Hooknum == nil {
					continue
				}
				if state == nil {
					state = markState{}
				}
				rules, err := c.GetRules(chain.Table, chain)
				if err != nil {
					return err
				}
				if len(rules) != len(t.maps) {
					continue
				}
				if state[t.family], err = readMarkMaps(c, chain.Table, t.maps); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading nftables table %q: %w", vrfTableName, err)
	}
	return state, nil
}

func readMarkMaps(c *nftables.Conn, table *nftables.Table, versions map[string]int) (map[int]marks, error) {
	have := map[int]marks{}
	for name, family := range versions {
		elements, err := c.GetSetElements(&nftables.Set{Table: table, Name: name, IsMap: true, KeyType: nftables.TypeIFName, DataType: nftables.TypeMark})
		switch {
		case errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			return nil, err
		}
		have[family] = marks{}
		for _, e := range elements {
			if len(e.Val) >= 4 {
				have[family][unix.ByteSliceToString(e.Key)] = binary.NativeEndian.Uint32(e.Val) &^ Mark
			}
		}
	}
	return have, nil
}

// dropMarks removes the tables.
func (v *Driver) dropMarks() error {
	err := v.NFT.Do(func(c *nftables.Conn) error {
		for _, t := range markTables {
			table := &nftables.Table{Name: vrfTableName, Family: t.family}
			c.AddTable(table)
			c.DelTable(table)
		}
		return v.NFT.Gen.Own(c.Flush, "inet "+vrfTableName, "arp "+vrfTableName)
	})
	if err != nil {
		return fmt.Errorf("removing nftables table %q: %w", vrfTableName, err)
	}
	return nil
}
