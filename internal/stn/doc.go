// Package stn is the STN daemon ("steal the NIC"): it claims a network card of the host for the
// vswitch, gives it to the vswitch while that forwards, and returns it to the host otherwise.
//
//	contiv-init ── StealInterface, ReleaseInterface ──┐
//	agent ──────── Attend: waiting, ready, not ready ─┤
//	kernel ─────── links, addresses, routes ──────────┼─> Keeper ──> journal (first)
//	timers ───────────────────────────────────────────┘     └──────> kernel, PCI bus (then)
//
// Every input updates the known state; then Keeper decides by the same rules who should hold each
// card. Nothing else makes changes.
//
// A card that is not a PCI device, or that keeps its driver, is shared with VPP through a packet
// socket. Its addresses stay on it, so that DHCP clients continue to work. The holder determines
// who receives and sends:
//
//	                 held by the host          held by the vswitch
//	received         by the host's stack       by VPP; the host's stack is shielded
//	routes           of the card: metric m     removed, and noted in the journal
//	                 of vpp1: metric m+1       of vpp1: metric m+1
//
// So the interconnect's routes, made by the agent, never collide with the card's, and one or the
// other always carries the host's packets.
//
// A PCI device driven by VPP itself loses its kernel driver, and its network device with the host's
// entire configuration.
package stn

import (
	"fmt"
	"os"
	"strings"
)

// BootID identifies the boot of the kernel.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot ID: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
