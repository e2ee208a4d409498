// Package kubeproxy detects kube-proxy by its objects in the kernel, in any of its modes. The cost
// does not depend on the number of services.
package kubeproxy

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// What kube-proxy has in its modes.
const (
	table   = "kube-proxy"    // nftables
	chain   = "KUBE-SERVICES" // iptables, in its table nat
	natIP   = "nat"
	ipvsDev = "kube-ipvs0" // ipvs
)

// Numbers of nftables (linux/netfilter/nf_tables.h).
const (
	nfnlSubsysNFTables = 10
	nftMsgGetTable     = 1
	nftMsgGetChain     = 4
	nftaTableName      = 1
	nftaChainTable     = 1
	nftaChainName      = 3
)

// Found describes the objects of kube-proxy in the calling thread's network namespace; "" if there
// are none.
func Found() (string, error) {
	for _, look := range []func() (string, error){inNFTables, inLegacyTables, amongLinks} {
		if found, err := look(); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}

// inNFTables looks into nftables, which programs named iptables use, too.
func inNFTables() (string, error) {
	for _, family := range []uint8{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
		there, err := exists(family, nftMsgGetTable, nl.NewRtAttr(nftaTableName, nl.ZeroTerminated(table)))
		if err != nil {
			return "", fmt.Errorf("looking for the table of kube-proxy: %w", err)
		}
		if there {
			return fmt.Sprintf("nftables table %q", table), nil
		}
		there, err = exists(family, nftMsgGetChain,
			nl.NewRtAttr(nftaChainTable, nl.ZeroTerminated(natIP)), nl.NewRtAttr(nftaChainName, nl.ZeroTerminated(chain)))
		if err != nil {
			return "", fmt.Errorf("looking for the chains of kube-proxy: %w", err)
		}
		if there {
			return fmt.Sprintf("chain %s of iptables", chain), nil
		}
	}
	return "", nil
}

// exists asks for one object of nftables.
func exists(family uint8, message uint16, name ...*nl.RtAttr) (bool, error) {
	req := nl.NewNetlinkRequest(nfnlSubsysNFTables<<8|int(message), unix.NLM_F_ACK)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family})
	for _, attr := range name {
		req.AddData(attr)
	}
	_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
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
