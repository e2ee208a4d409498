package kernel

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of the nftables netlink protocol for dumps of rules.
const (
	nftMsgGetRule    = 7
	nftaRuleTable    = 1
	nftaRuleChain    = 2
	nftaRuleUserData = 7
)

// rules returns the comments of all rules of an IPv4 table, by chain, in order. What
// the rules do is not read: only we make rules with these comments.
func (g *generations) rules(table string) (map[string][]string, error) {
	req := &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{
			Len: unix.SizeofNlMsghdr, Type: nfnlSubsysNFTables<<8 | nftMsgGetRule, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP,
		},
		Sockets: map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: g.socket},
	}
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_IPV4})
	req.AddData(nl.NewRtAttr(nftaRuleTable, nl.ZeroTerminated(table)))
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("listing rules: %w", err)
	}
	found := map[string][]string{}
	for _, m := range msgs {
		if len(m) < sizeofNfgenmsg {
			continue
		}
		var name, chain, comment string
		for attr, value := range attributes(m[sizeofNfgenmsg:]) {
			switch attr {
			case nftaRuleTable:
				name = strings.TrimRight(string(value), "\x00")
			case nftaRuleChain:
				chain = strings.TrimRight(string(value), "\x00")
			case nftaRuleUserData:
				comment, _ = userdata.GetString(value, userdata.TypeComment)
			}
		}
		if name == table {
			found[chain] = append(found[chain], comment)
		}
	}
	return found, nil
}
