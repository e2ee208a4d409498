package nft

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/contiv/contiv/netlink/nlattr"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Numbers of the nftables netlink protocol (linux/netfilter/nf_tables.h).
const (
	nfnlSubsysNFTables = 10
	nftMsgNewTable     = 0
	nftMsgDelTable     = 2
	nftMsgDelChain     = 5
	nftMsgNewRule      = 6
	nftMsgDelRule      = 8
	nftMsgNewSetElem   = 12
	nftMsgDelSetElem   = 14
	nftMsgNewGen       = 15
	nftMsgGetGen       = 16
	nftaTableName      = 1 // in messages about tables, chains and rules alike
	nftaGenID          = 1
	NfnlGroupNFTables  = 7
	sizeofNfgenmsg     = 4
)

// generations knows which generations of the ruleset of the kernel are our own
// doing: each change makes one.
type generations struct {
	socket *nl.SocketHandle

	mu  sync.Mutex
	ids []uint32
}

func (g *generations) open(ns netns.NsHandle) error {
	s, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for nftables: %w", err)
	}
	g.socket = &nl.SocketHandle{Socket: s}
	return nil
}

func (g *generations) close() {
	if g.socket != nil {
		g.socket.Close()
	}
}

// Own notes the generation that fn makes as ours. If others change the ruleset at
// the same time, it cannot be told which is whose; then none is noted.
func (g *generations) Own(fn func() error) error {
	before, known := g.Current()
	err := fn()
	if after, ok := g.Current(); ok && known && after == before+1 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ids = append(g.ids, after)
		if len(g.ids) > 64 {
			g.ids = g.ids[1:]
		}
	}
	return err
}

func (g *generations) isOwn(id uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.ids, id)
}

func (g *generations) Current() (uint32, bool) {
	req := &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{
			Len: unix.SizeofNlMsghdr, Type: nfnlSubsysNFTables<<8 | nftMsgGetGen, Flags: unix.NLM_F_REQUEST,
		},
		Sockets: map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: g.socket},
	}
	req.AddRawData(make([]byte, sizeofNfgenmsg))
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil || len(msgs) == 0 {
		return 0, false
	}
	return parseGeneration(msgs[0])
}

// parseGeneration reads the generation from a message behind its header.
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
