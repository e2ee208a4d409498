package kernel

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"sigs.k8s.io/knftables"
)

// Uninstall removes what no northbound value stands for and what therefore stays
// when the last value is gone: our nftables tables, and policy rules that were left
// behind. What is left by then of
// devices, addresses, routes and neighbours with our marks is an error that names
// it. Sysctls stay as they are: others may have come to rely on them.
func (v *VSwitch) Uninstall(ctx context.Context) error {
	err := v.ns.run(func() error {
		if _, err := exec.LookPath("nft"); errors.Is(err, exec.ErrNotFound) {
			return nil // as ever: without the program we made no table
		}
		var errs []error
		for _, family := range []knftables.Family{knftables.IPv4Family, knftables.IPv6Family, knftables.InetFamily} {
			errs = append(errs, dropTable(ctx, family))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		err = fmt.Errorf("removing nftables tables %q: %w", natTable, err)
	}
	return errors.Join(err, v.dropACLs(ctx), v.sweepSegments(), v.dropVRFs(), v.leftovers())
}

func dropTable(ctx context.Context, family knftables.Family) error {
	nft, err := knftables.New(family, natTable, knftables.NoObjectCommentEmulation)
	if err != nil {
		return err
	}
	if _, err := nft.List(ctx, "chain"); knftables.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	tx := nft.NewTransaction()
	tx.Delete(&knftables.Table{})
	return nft.Run(ctx, tx)
}

// leftovers names what still has our marks.
func (v *VSwitch) leftovers() error {
	devs, err := v.devices()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range devs.byIndex {
		if isOurs(link) {
			errs = append(errs, fmt.Errorf("device %s (alias %q) is left: remove it with `ip link delete %s`",
				link.Attrs().Name, link.Attrs().Alias, link.Attrs().Name))
		}
	}
	addrs, err := v.raw.addresses(0)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.proto == protoOurs || a.proto == protoBorrowed || a.proto == protoLeased {
			errs = append(errs, fmt.Errorf("address %v on device %d is left: remove it with `ip address delete`", a.prefix, a.index))
		}
	}
	routes, err := (routes{v}).List(context.Background(), nil)
	if err != nil {
		return err
	}
	for _, r := range routes {
		errs = append(errs, fmt.Errorf("route to %s is left: remove it with `ip route flush proto %d`", r.GetDstNetwork(), protoOurs))
	}
	return errors.Join(errs...)
}
