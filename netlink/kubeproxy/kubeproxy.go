// Package kubeproxy finds what kube-proxy leaves in the kernel.
package kubeproxy

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

// What kube-proxy has in its modes.
const (
	table   = "kube-proxy"    // nftables
	chain   = "KUBE-SERVICES" // iptables, as far as it is nftables underneath
	ipvsDev = "kube-ipvs0"    // ipvs
)

// Found says what there is of kube-proxy in the present network namespace; "" if nothing.
func Found() (string, error) {
	conn, err := nftables.New()
	if err != nil {
		return "", fmt.Errorf("looking for rules of kube-proxy: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return "", fmt.Errorf("looking for rules of kube-proxy: %w", err)
	}
	for _, c := range chains {
		switch {
		case c.Table.Name == table:
			return fmt.Sprintf("nftables table %q", table), nil
		case c.Name == chain:
			return fmt.Sprintf("chain %s of iptables", chain), nil
		}
	}
	_, err = netlink.LinkByName(ipvsDev)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for the device of kube-proxy: %w", err)
	}
	return "device " + ipvsDev, nil
}
