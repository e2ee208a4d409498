package stn

import (
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/stn/nic"
)

// While VPP reads a card by AF_XDP, VPP's XDP program is on the card and the host receives nothing
// from it.

// lostProgram returns an error if VPP's XDP program is lost: an earlier daemon detached it, and no new
// VPP has attached one.
func (k *Keeper) lostProgram(c *card) error {
	if !c.Detached || c.program.File != nil {
		return nil
	}
	id, err := k.kernel.XDP(c.Name)
	if err == nil && id == c.XDP {
		err = errors.New("an earlier contiv-stn detached VPP's XDP program from the card: restart VPP")
	}
	return err
}

// attach attaches VPP's XDP program to a card again, unless a new VPP has attached its own.
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

// detach detaches VPP's XDP program, which keeps all received packets from the host.
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

// uncover detaches VPP's XDP program from a card held by the host if it stays too long, because VPP
// hangs or is not being configured.
func (k *Keeper) uncover(c *card, why string) {
	id, err := k.kernel.XDP(c.Name)
	if err != nil || id == c.XDP {
		c.coveredSince = time.Time{}
		return
	}
	if c.coveredSince.IsZero() {
		if c.reporter == nil { // without an agent, VPP cannot have taken the card: the program is the host's
			return
		}
		c.coveredSince = time.Now()
	}
	if wait := time.Until(c.coveredSince.Add(k.Limits.Silent)); wait > 0 {
		c.timer.Reset(wait)
		return
	}
	if err := k.detach(c); err != nil {
		k.complain(c, fmt.Sprintf("VPP's XDP program hides received packets from the host: %v", err))
		c.timer.Reset(k.Limits.Silent)
		return
	}
	c.coveredSince = time.Time{}
	k.Log.Warn("Detaching VPP's XDP program from the network card", "interface", c.Name, "because", why)
}

func (c *card) forgetProgram() {
	if c.program.File != nil {
		c.program.Close()
	}
	c.program = nic.Program{}
}
