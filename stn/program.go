package stn

import (
	"errors"

	"github.com/contiv/contiv/stn/nic"
)

// A card that VPP reads by AF_XDP has a program of VPP, which the host receives nothing beside.

// lostProgram returns an error if VPP would receive nothing from a card that it reads by AF_XDP.
func (k *Keeper) lostProgram(c *card) error {
	if !c.Detached || c.program.File != nil {
		return nil
	}
	id, err := k.kernel.XDP(c.Name)
	if err == nil && id == c.XDP {
		err = errors.New("VPP has lost its XDP program, which an earlier contiv-stn took off the card: restart VPP")
	}
	return err
}

// attach puts VPP's XDP program back on a card, unless a new VPP has one there.
func (k *Keeper) attach(c *card) error {
	if !c.Detached {
		return nil
	}
	if err := k.lostProgram(c); err != nil {
		return err
	}
	id, err := k.kernel.XDP(c.Name)
	if err == nil && id == c.XDP {
		err = k.kernel.Attach(c.Name, c.program)
	}
	if err != nil {
		return err
	}
	c.forgetProgram()
	c.Detached = false
	return k.save()
}

// detach takes VPP's XDP program off a card, which keeps all that the card receives from the host.
func (k *Keeper) detach(c *card) error {
	id, err := k.kernel.XDP(c.Name)
	if err != nil || id == c.XDP {
		return err
	}
	c.Detached = true
	if err := k.save(); err != nil {
		return err
	}
	c.forgetProgram()
	c.program, err = k.kernel.Detach(c.Name)
	return err
}

func (c *card) forgetProgram() {
	if c.program.File != nil {
		c.program.Close()
	}
	c.program = nic.Program{}
}
