// Package kubeproxy detects kube-proxy by its objects in the kernel, in all of its modes. The cost
// does not depend on the number of services.
package kubeproxy

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Objects of kube-proxy in its modes.
const (
	table   = "kube-proxy"    // nftables
	chain   = "KUBE-SERVICES" // iptables, in table nat
	natIP   = "nat"
	ipvsDev = "kube-ipvs0" // ipvs
)

// Constants of linux/netfilter/nf_tables.h.
const (
	nfnlSubsysNFTables = 10
	nftMsgNewRule      = 6
	nftMsgGetRule      = 7
	nftaRuleTable      = 1
	nftaRuleChain      = 2
)

// Found describes an object of kube-proxy in the calling thread's network namespace, or returns "".
// Tables and chains without rules do not count.
func Found() (string, error) {
	for _, look := range []func() (string, error){inNFTables, inLegacyTables, amongLinks} {
		if found, err := look(); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}

func inNFTables() (string, error) {
	for _, family := range []struct {
		number uint8
		name   string
	}{{unix.NFPROTO_IPV4, "ip"}, {unix.NFPROTO_IPV6, "ip6"}} {
		there, err := hasRules(family.number, table, "")
		if err != nil {
			return "", fmt.Errorf("looking for the table of kube-proxy: %w", err)
		}
		if there {
			return fmt.Sprintf("nftables table %q", family.name+" "+table), nil
		}
		if there, err = hasRules(family.number, natIP, chain); err != nil {
			return "", fmt.Errorf("looking for the chains of kube-proxy: %w", err)
		}
		if there {
			return fmt.Sprintf("chain %s of iptables", chain), nil
		}
	}
	return "", nil
}

// hasRules reports whether a table of nftables has a rule, in the chain if that is not "". It reads
// only the first part of the answer.
func hasRules(family uint8, table, chain string) (bool, error) {
	req := nl.NewNetlinkRequest(nfnlSubsysNFTables<<8|nftMsgGetRule, unix.NLM_F_DUMP)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family})
	req.AddData(nl.NewRtAttr(nftaRuleTable, nl.ZeroTerminated(table)))
	if chain != "" {
		req.AddData(nl.NewRtAttr(nftaRuleChain, nl.ZeroTerminated(chain)))
	}
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	if err := socket.Send(req); err != nil {
		return false, err
	}
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			return false, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR: // both have a code
				if len(m.Data) < 4 {
					return false, nil
				}
				if errno := -int32(nl.NativeEndian().Uint32(m.Data)); errno > 0 && unix.Errno(errno) != unix.ENOENT {
					return false, unix.Errno(errno)
				}
				return false, nil
			case nfnlSubsysNFTables<<8 | nftMsgNewRule:
				if isOf(m.Data, table, chain) { // old kernels list the rules of all tables
					return true, nil
				}
			}
		}
	}
}

// isOf reports whether a rule is in a table, and in the chain if that is not "".
func isOf(rule []byte, table, chain string) bool {
	is := map[int]string{}
	for attr, value := range nlattr.All(rule[nl.SizeofNfgenmsg:]) {
		is[attr] = unix.ByteSliceToString(value)
	}
	return is[nftaRuleTable] == table && (chain == "" || is[nftaRuleChain] == chain)
}

func amongLinks() (string, error) {
	_, err := netlink.LinkByName(ipvsDev)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for the device of kube-proxy: %w", err)
	}
	return "device " + ipvsDev, nil
}
