package stn

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/nic"
	"golang.org/x/sys/unix"
)

// dropAll loads an XDP program that drops all packets, like VPP's does while VPP hangs.
func dropAll(t *testing.T) nic.Program {
	t.Helper()
	code := []uint64{unix.BPF_ALU64 | unix.BPF_MOV | 1<<32, unix.BPF_JMP | unix.BPF_EXIT} // r0 = XDP_DROP; exit
	license := []byte("GPL\x00")
	request := struct {
		kind, count   uint32
		code, license uintptr
		level, size   uint32
		log           uint64
	}{kind: unix.BPF_PROG_TYPE_XDP, count: uint32(len(code)), code: uintptr(unsafe.Pointer(&code[0])), license: uintptr(unsafe.Pointer(&license[0]))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	runtime.KeepAlive(code)
	runtime.KeepAlive(license)
	if errno != 0 {
		t.Fatalf("loading an XDP program: %v", errno)
	}
	p := nic.Program{File: os.NewFile(fd, "dropAll")}
	t.Cleanup(func() { p.Close() })
	return p
}

// A VPP that reads the card by AF_XDP has an XDP program on it, which is detached and attached with
// the card.
func TestXDPProgramOfVPP(t *testing.T) {
	h := newHost(t)
	before := h.has(t)
	first := h.keeper(t)
	mustSteal(t, first)
	h.interconnect(t)
	first.checkCards()
	program := func() uint32 {
		id, err := first.kernel.XDP("eth0")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	start := func() uint32 { // VPP
		if err := first.kernel.Attach("eth0", dropAll(t)); err != nil {
			t.Fatal(err)
		}
		return program()
	}
	running := start()
	r := first.Attend("eth0")
	for range 2 {
		r.Report(true, "")
		first.holds(t, journal.VSwitch)
		if got := program(); got != running {
			t.Fatalf("taken, the card has the XDP program %d, not %d", got, running)
		}
		r.Report(false, "VPP does not answer")
		first.holds(t, journal.Host)
		wantSame(t, "given back", h.has(t), before)
	}

	// A restarted daemon does not have the detached program and leaves the card with the host.
	first.mu.Lock()
	first.closed = true
	first.mu.Unlock()
	k := h.keeper(t)
	defer k.Close()
	k.checkCards()
	r = k.Attend("eth0")
	r.Report(true, "")
	k.holds(t, journal.Host)
	if why := k.Claimed("eth0").Reason; !strings.Contains(why, "restart VPP") {
		t.Errorf("the reason is %q", why)
	}
	wantSame(t, "left with the host", h.has(t), before)
	restarted := start()
	r.Report(true, "")
	k.holds(t, journal.VSwitch)
	if got := program(); got != restarted {
		t.Errorf("taken by a new VPP, the card has the XDP program %d, not %d", got, restarted)
	}

	// A restarted daemon continues an unfinished return of the card.
	r.Report(false, "")
	k.holds(t, journal.Host)
	k.mu.Lock()
	k.cards["eth0"].Holder = journal.VSwitch
	err := k.save()
	k.closed = true
	k.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	next := h.keeper(t)
	defer next.Close()
	next.holds(t, journal.Host)
	wantSame(t, "given back by the next daemon", h.has(t), before)
}

// A VPP that attached to the card but does not forward is detached soon, with or without an agent.
// It gets the card as soon as it forwards.
func TestXDPProgramOfVPPThatDoesNotForward(t *testing.T) {
	h := newHost(t)
	before := h.has(t)
	k := h.keeper(t)
	defer k.Close()
	mustSteal(t, k)
	h.interconnect(t)
	program := func() uint32 {
		id, err := k.kernel.XDP("eth0")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	r := k.Attend("eth0")
	for when, report := range map[string]func(){
		"the agent does not configure it": func() { r.Report(false, "it is not configured") },
		"the agent stopped":               func() { r.Report(false, "it is not configured"); r.Leave() },
	} {
		if err := k.kernel.Attach("eth0", dropAll(t)); err != nil {
			t.Fatal(err)
		}
		running := program()
		report()
		if got := program(); got != running {
			t.Errorf("%s: VPP had no time to become ready", when)
		}
		k.mu.Lock()
		since := &k.cards["eth0"].coveredSince
		*since = since.Add(-k.Limits.Silent)
		k.mu.Unlock()
		k.checkCards()
		if got := program(); got != 0 {
			t.Fatalf("%s: the host's card still has the XDP program %d", when, got)
		}
		wantSame(t, when, h.has(t), before)

		r = k.Attend("eth0")
		h.ip(t, "link set vpp1 up")
		k.checkCards()
		r.Report(true, "")
		k.holds(t, journal.VSwitch)
		if got := program(); got != running {
			t.Errorf("taken, the card has the XDP program %d, not %d", got, running)
		}
		r.Report(false, "VPP is gone")
		k.holds(t, journal.Host)
	}
}

// A program that the host had on the card is left alone.
func TestXDPProgramOfTheHost(t *testing.T) {
	h := newHost(t)
	unattended := h.keeper(t)
	mustSteal(t, unattended)
	if err := unattended.kernel.Attach("eth0", dropAll(t)); err != nil {
		t.Fatal(err)
	}
	unattended.checkCards()
	if since := unattended.cards["eth0"].coveredSince; !since.IsZero() {
		t.Error("without an agent, the program is taken for VPP's")
	}
	if err := errors.Join(unattended.Release(""), unattended.Close()); err != nil {
		t.Fatal(err)
	}
	k := h.keeper(t)
	defer k.Close()
	before := h.has(t)
	mustSteal(t, k)
	h.interconnect(t)
	k.checkCards()
	r := k.Attend("eth0")
	r.Report(true, "")
	k.holds(t, journal.VSwitch)
	r.Report(false, "")
	k.holds(t, journal.Host)
	wantSame(t, "given back", h.has(t), before)
}
