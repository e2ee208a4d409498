package nft

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/netlink/nlattr"
)

// Constants of linux/netfilter/nf_tables.h.
const (
	nfnlSubsysNFTables = 10
	nftMsgNewTable     = 0
	nftMsgDelTable     = 2
	nftMsgNewChain     = 3
	nftMsgDelChain     = 5
	nftMsgNewRule      = 6
	nftMsgDelRule      = 8
	nftMsgNewSet       = 9
	nftMsgDelSet       = 11
	nftMsgNewSetElem   = 12
	nftMsgDelSetElem   = 14
	nftMsgNewGen       = 15
	nftMsgGetGen       = 16
	nftaTableName      = 1 // in messages about tables, chains and rules
	nftaGenID          = 1
	nftaGenProcPID     = 2
	nftaGenProcName    = 3
	NfnlGroupNFTables  = 7
	sizeofNfgenmsg     = 4
)

// generations records which generations of the ruleset are our own. Each change makes one.
type generations struct {
	kernel Kernel
	fault  Fault

	mu  sync.Mutex
	own []ownChange // in order
}

type ownChange struct {
	id     uint32
	tables []string
}

// ownChanges limits the recorded generations. Tables read before them are read again.
const ownChanges = 4096

// record records the generation that fn makes, which changes the tables (e.g. "inet contiv-acl").
// If other processes change the ruleset at the same time, the owner is unknown, and nothing is
// recorded.
func (g *generations) record(fn func() error, tables ...string) error {
	before, known := g.current()
	err := fn()
	if after, ok := g.current(); ok && known && after == before+1 {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.own = append(g.own, ownChange{after, tables}); len(g.own) > ownChanges {
			g.own = slices.Clone(g.own[ownChanges/2:])
		}
	}
	return err
}

// unchanged implements Conn.Unchanged.
func (g *generations) unchanged(table string, since uint32) (now uint32, ok bool) {
	now, ok = g.current()
	if !ok || since == 0 {
		return 0, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := len(g.own)
	for id := now; id != since; id-- {
		at--
		if at < 0 || g.own[at].id != id || slices.Contains(g.own[at].tables, table) {
			return now, false
		}
	}
	return now, true
}

func (g *generations) isOwn(id uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.own, func(c ownChange) bool { return c.id == id })
}

// current returns the generation of the ruleset. ok is false if the kernel did not return it.
func (g *generations) current() (id uint32, ok bool) {
	if g.fault.ask("generation") != nil {
		return 0, false
	}
	err := g.kernel.Ask(nftMsgGetGen, 0, make([]byte, sizeofNfgenmsg), func(answer []byte) {
		if n, found := parseGeneration(answer); found {
			id, ok = n, true
		}
	})
	return id, ok && err == nil
}

func parseGeneration(m []byte) (id uint32, ok bool) {
	if len(m) < sizeofNfgenmsg {
		return 0, false
	}
	for attr, value := range nlattr.All(m[sizeofNfgenmsg:]) {
		if attr == nftaGenID && len(value) == 4 {
			return binary.BigEndian.Uint32(value), true
		}
	}
	return 0, false
}

// processOf returns the author of a generation, e.g. "nft (process 17)", or "".
func processOf(m []byte) string {
	var name string
	var pid uint32
	for attr, value := range nlattr.All(m[sizeofNfgenmsg:]) {
		switch {
		case attr == nftaGenProcPID && len(value) == 4:
			pid = binary.BigEndian.Uint32(value)
		case attr == nftaGenProcName:
			name = strings.TrimRight(string(value), "\x00")
		}
	}
	if name == "" || pid == 0 {
		return ""
	}
	return fmt.Sprintf("%s (process %d)", name, pid)
}
