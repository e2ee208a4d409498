package nft

import (
	"cmp"
	"slices"
	"strings"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"golang.org/x/sys/unix"
)

// Change is a transaction of nftables in one table. It is comparable.
type Change struct {
	// generation of the ruleset that the transaction made
	generation uint32
	// by is the process that made it; "" if unknown.
	by string
	// Table includes the family: "inet contiv-acl". A transaction with several tables is several
	// Changes.
	Table string
}

var nftFamilies = map[byte]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_ARP: "arp", unix.NFPROTO_BRIDGE: "bridge",
}

// Events tracks the transactions of nftables: the kernel sends their changes, then the generation.
type Events struct{ touched []string }

// Next returns the changes of a transaction after its last message.
func (e *Events) Next(m syscall.NetlinkMessage) (changes []Change) {
	if m.Header.Type>>8 != nfnlSubsysNFTables || len(m.Data) < sizeofNfgenmsg {
		return nil
	}
	switch m.Header.Type & 0xff {
	case nftMsgNewTable, nftMsgDelTable, nftMsgNewChain, nftMsgDelChain, nftMsgNewSet, nftMsgDelSet, nftMsgNewRule, nftMsgDelRule, nftMsgNewSetElem, nftMsgDelSetElem:
		for attr, value := range nlattr.All(m.Data[sizeofNfgenmsg:]) {
			if attr != nftaTableName {
				continue
			}
			table := nftFamilies[m.Data[0]] + " " + strings.TrimRight(string(value), "\x00")
			if !slices.Contains(e.touched, table) {
				e.touched = append(e.touched, table)
			}
		}
	case nftMsgNewGen:
		if id, ok := parseGeneration(m.Data); ok {
			by := processOf(m.Data)
			for _, table := range e.touched {
				changes = append(changes, Change{id, by, table})
			}
		}
		e.touched = nil
	}
	return changes
}

// Foreign reports whether another process changed one of the tables, and the last one: " by nft
// (process 17)", or "" if unknown. It takes the lock, since a change during our own transaction can
// be attributed only after it.
func (d *Conn) Foreign(changes []Change, tables ...string) (by string, foreign bool) {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !slices.Contains(tables, c.Table) })
	if len(changes) == 0 {
		return "", false
	}
	d.Lock()
	defer d.Unlock()
	changes = slices.DeleteFunc(changes, func(c Change) bool { return d.gen.isOwn(c.generation) })
	if len(changes) == 0 {
		return "", false
	}
	last := slices.MaxFunc(changes, func(a, b Change) int { return cmp.Compare(a.generation, b.generation) })
	if last.by == "" {
		return "", true
	}
	return " by " + last.by, true
}
