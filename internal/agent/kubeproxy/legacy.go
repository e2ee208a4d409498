package kubeproxy

import (
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/netlink/xtables"
)

// inLegacyTables searches the tables of iptables-legacy. Reading a table that is not in use would
// create it.
func inLegacyTables() (string, error) {
	for _, family := range []xtables.Family{xtables.IPv4, xtables.IPv6} {
		names, err := xtables.InUse(family)
		if err != nil {
			return "", fmt.Errorf("looking for the chains of kube-proxy: %w", err)
		}
		if !slices.Contains(names, natIP) {
			continue
		}
		table, err := xtables.Read(family, natIP)
		if err != nil {
			return "", fmt.Errorf("looking for the chains of kube-proxy in iptables-legacy: %w", err)
		}
		// The last rule of each chain is a return.
		if slices.ContainsFunc(table.Chains, func(c xtables.Chain) bool { return c.Name == chain && len(c.Rules) > 1 }) {
			return fmt.Sprintf("chain %s of iptables-legacy", chain), nil
		}
	}
	return "", nil
}
