package stn

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/stn/journal"
)

// pciDevice returns the address and the driver of a card; "" if it is not a PCI device.
func (k *Keeper) pciDevice(name string) (address, driver string, err error) {
	_, address, err = k.busOf(name)
	if err != nil || address == "" {
		return "", "", err
	}
	is, err := k.Bus.Has(address)
	if err != nil || !is {
		return "", "", err
	}
	driver, err = k.Bus.DriverOf(address)
	return address, driver, err
}

// takePCI binds a PCI device to the driver that VPP uses.
func (k *Keeper) takePCI(c *card) error {
	c.State.ReadSettings()
	settings := c.State.Settings
	if err := k.note(c, journal.VSwitch, "the vswitch starts"); err != nil {
		return err
	}
	if c.State.Settings == nil { // not if it was read before
		c.State.Settings = settings
		if err := k.save(); err != nil {
			return err
		}
	}
	c.giving, c.starting, c.absentSince = "", true, time.Now()
	link, err := k.kernel.Device(c.Name)
	if err != nil {
		return err
	}
	k.before("link down")
	if err := k.kernel.SetLink(link.Attrs().Index, rtnl.LinkChange{Down: true}); err != nil {
		return err
	}
	k.before("bind")
	if err := k.Bus.Bind(c.PCI, k.PCIDriver); err != nil {
		return err
	}
	k.Log.Info("Network card bound to VPP's driver", "interface", c.Name, "pci", c.PCI, "driver", k.PCIDriver)
	c.notify()
	c.timer.Reset(k.Limits.Start)
	return nil
}

// returnPCI binds the device to its original driver and restores the name of its network device.
func (k *Keeper) returnPCI(c *card) error {
	k.before("return")
	if err := k.Bus.Return(c.PCI, c.PCIDriver); err != nil {
		return err
	}
	names, err := k.Bus.NetDevices(c.PCI)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("PCI device %s has no network device yet", c.PCI)
	}
	if slices.Contains(names, c.Name) {
		return nil
	}
	link, err := k.kernel.Device(names[0])
	if err != nil {
		return err
	}
	k.before("rename")
	index := link.Attrs().Index
	return errors.Join(k.kernel.SetLink(index, rtnl.LinkChange{Down: true}), k.kernel.SetLink(index, rtnl.LinkChange{Name: c.Name}))
}
