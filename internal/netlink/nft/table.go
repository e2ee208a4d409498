package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type Table struct {
	Chains map[string]Chain
	// Sets by name, without anonymous sets.
	Sets map[string]Set
}

// Chain is a chain with its hook, if any, and the comments of its rules.
type Chain struct {
	Hook  *Hook
	Rules []string
}

// Hook is the hook of a base chain.
type Hook struct {
	Type         string
	Number       uint32
	Priority     int32
	Drops, Bound bool // policy is drop; it is bound to devices
}

// Set is a set, a map or a verdict map.
type Set struct {
	// Dynamic sets are filled by packets; their elements are not read.
	Dynamic bool
	// Described sets have user data by which nft lists them.
	Described bool
	Elements  []Element
}

// layout reads a table without the elements of its sets; nil if it does not exist.
func (g *generations) layout(family byte, table string) (*Table, error) {
	t := &Table{Chains: map[string]Chain{}, Sets: map[string]Set{}}
	attr := nl.NewRtAttr(1, nl.ZeroTerminated(table)) // NFTA_CHAIN_TABLE, NFTA_SET_TABLE
	exists, err := g.exists(family, table)
	if err != nil || !exists {
		return nil, err
	}
	err = g.dump(family, nftMsgGetChain, func(m []byte) { t.addChain(m, table) }, attr)
	if err != nil {
		return nil, fmt.Errorf("listing chains: %w", err)
	}
	rules, err := g.rules(family, table)
	if err != nil {
		return nil, err
	}
	for chain, comments := range rules {
		c := t.Chains[chain]
		c.Rules = comments
		t.Chains[chain] = c
	}
	err = g.dump(family, nftMsgGetSet, func(m []byte) { t.addSet(m, table) }, attr)
	if err != nil {
		return nil, fmt.Errorf("listing sets: %w", err)
	}
	return t, nil
}

func (g *generations) readTable(family byte, table string) (*Table, error) {
	t, err := g.layout(family, table)
	if t == nil || err != nil {
		return nil, err
	}
	for name, s := range t.Sets {
		if s.Dynamic {
			continue
		}
		if s.Elements, err = g.elements(family, table, name); err != nil {
			return nil, err
		}
		t.Sets[name] = s
	}
	return t, nil
}

func (g *generations) exists(family byte, table string) (found bool, err error) {
	const nftMsgGetTable = 1
	err = g.dump(family, nftMsgGetTable, func(m []byte) {
		for attr, value := range nlattr.All(m) {
			found = found || attr == nftaTableName && name(value) == table
		}
	})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("listing tables: %w", err)
	}
	return found, err
}

func (t *Table) addChain(m []byte, table string) {
	var in, chain string
	var hook *Hook
	for attr, value := range nlattr.All(m) {
		switch attr {
		case unix.NFTA_CHAIN_TABLE:
			in = name(value)
		case unix.NFTA_CHAIN_NAME:
			chain = name(value)
		case unix.NFTA_CHAIN_HOOK:
			if hook == nil {
				hook = &Hook{}
			}
			for attr, value := range nlattr.All(value) {
				switch {
				case attr == unix.NFTA_HOOK_HOOKNUM && len(value) == 4:
					hook.Number = binary.BigEndian.Uint32(value)
				case attr == unix.NFTA_HOOK_PRIORITY && len(value) == 4:
					hook.Priority = int32(binary.BigEndian.Uint32(value))
				case attr == unix.NFTA_HOOK_DEV:
					hook.Bound = true
				}
			}
		}
	}
	if in != table {
		return
	}
	for attr, value := range nlattr.All(m) {
		switch {
		case hook == nil:
		case attr == unix.NFTA_CHAIN_TYPE:
			hook.Type = name(value)
		case attr == unix.NFTA_CHAIN_POLICY && len(value) == 4:
			hook.Drops = expr.VerdictKind(int32(binary.BigEndian.Uint32(value))) == expr.VerdictDrop
		}
	}
	t.Chains[chain] = Chain{Hook: hook}
}

func (t *Table) addSet(m []byte, table string) {
	var in, set string
	var flags uint32
	described := false
	for attr, value := range nlattr.All(m) {
		switch {
		case attr == unix.NFTA_SET_USERDATA:
			described = true
		case attr == unix.NFTA_SET_TABLE:
			in = name(value)
		case attr == unix.NFTA_SET_NAME:
			set = name(value)
		case attr == unix.NFTA_SET_FLAGS && len(value) == 4:
			flags = binary.BigEndian.Uint32(value)
		}
	}
	if in == table && flags&unix.NFT_SET_ANONYMOUS == 0 {
		t.Sets[set] = Set{Dynamic: flags&unix.NFT_SET_EVAL != 0, Described: described}
	}
}
