package vrf

import (
	"errors"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Earlier versions emulated VRFs where they did not use VRF devices. These are the remains:
//
//	90          iif c-tap1, oif c-tap1, fwmark 0x79000005 goto 1100500000
//	91          iif c-tap1 unreachable            keeps the device out of VRF 0
//	100         lookup local                      moved from preference 0
//	1100500000… tables of VRFs, and of routes between VRFs
//
// with marks (marks.go), the routes of addresses in the tables of VRFs, and throw routes for routes
// between VRFs.

const (
	prefIsolated = 91
	// Each VRF had a block of blockSize preferences.
	prefBlocks = 1_100_000_000
	blockSize  = 100_000
)

const ruleGoto = 2

// isEmulation reports whether a rule of ours belongs to the emulation.
func isEmulation(r rtnl.Rule) bool {
	return r.Pref == prefInto && r.Action == ruleGoto || r.Pref == prefIsolated ||
		r.Pref >= prefBlocks && r.Pref < prefBlocks+(own.MaxVRF+1)*blockSize
}

// removeEmulation removes the remains of the emulation. Our devices in emulated VRFs go down first,
// so that VRF 0 gets none of their packets. The next transaction sets the interfaces up that are
// configured.
func (v *rules) removeEmulation() error {
	found, emulated := map[string]bool{}, false
	for _, family := range ipFamilies {
		_, have, err := v.read(family)
		if err != nil {
			return err
		}
		for r := range have {
			if isOurRule(r) && isEmulation(r) {
				emulated = true
				found[r.Iif+r.Oif] = true
			}
		}
	}
	if !emulated {
		return nil
	}
	v.Log.Info("Removing the emulation of VRFs that an earlier version left")
	delete(found, "")
	for name := range found {
		if err := rtnl.IgnoreGone(v.withdraw(name)); err != nil {
			return err
		}
	}
	marks := v.writeMarks
	if len(v.lastState(unix.AF_INET).guests)+len(v.lastState(unix.AF_INET6).guests) == 0 {
		marks = v.dropMarks
	}
	if err := marks(); err != nil {
		return err
	}
	for _, family := range ipFamilies {
		if err := v.removeEmulatedRoutes(family); err != nil {
			return err
		}
	}
	// The rules are last: until they are gone, the next start repeats the removal.
	for _, family := range ipFamilies {
		if err := v.edit(family, func(*ruleState) {}); err != nil {
			return err
		}
	}
	return nil
}

// withdraw sets a device of ours down, and deletes the addresses without the kernel's routes.
func (v *rules) withdraw(name string) error {
	link, err := v.LinkNamed(name)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	if own.IsOurs(link) {
		if err := v.Net.SetLink(index, rtnl.LinkChange{Down: true}); err != nil {
			return err
		}
	}
	addrs, err := v.Net.Addresses(index)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range addrs {
		if a.Proto == own.ProtoOurs && a.Flags&unix.IFA_F_NOPREFIXROUTE != 0 || a.Proto == own.ProtoBorrowed {
			errs = append(errs, rtnl.IgnoreGone(v.Net.DelAddress(a)))
		}
	}
	return errors.Join(errs...)
}

// removeEmulatedRoutes removes the routes of addresses in the tables of VRFs, and the throw routes.
// The routes of guests are among them, and return with their interfaces.
func (v *rules) removeEmulatedRoutes(family int) error {
	ofAddresses, err := placed(v.Net, family, 0, 0, own.ProtoVRF)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range ofAddresses {
		if r.typ != unix.RTN_UNREACHABLE { // ends the table of a VRF device
			errs = append(errs, rtnl.IgnoreGone(delPlaced(v.Net, r)))
		}
	}
	throws, err := v.Net.Routes(family, &netlink.Route{Protocol: own.ProtoOurs, Type: unix.RTN_THROW},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TYPE|netlink.RT_FILTER_TABLE)
	errs = append(errs, err)
	for _, r := range throws {
		if _, ours := own.VRFOfTable(uint32(r.Table)); ours {
			errs = append(errs, rtnl.IgnoreGone(v.Net.RouteDel(&r)))
		}
	}
	return errors.Join(errs...)
}
