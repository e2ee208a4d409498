package stn

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/pci"
	"github.com/vishvananda/netns"
)

// killAt is the environment variable that turns this test program into a daemon. The daemon takes a
// card, returns it, and kills itself with SIGKILL before the given step.
const killAt = "CONTIV_STN_TEST_KILL_AT"

func TestMain(m *testing.M) {
	if at := os.Getenv(killAt); at != "" {
		os.Exit(dieAt(at, os.Getenv("CONTIV_STN_TEST_NETNS"), os.Getenv("CONTIV_STN_TEST_DIR")))
	}
	os.Exit(m.Run())
}

func dieAt(at, ns, dir string) int {
	last, err := strconv.Atoi(at)
	if err != nil {
		return 3
	}
	h := &host{dir: dir, limits: quick, boot: "this boot", bus: pci.Bus{Sysfs: noPCI{}}}
	if h.ns, err = netns.GetFromName(ns); err != nil {
		return 3
	}
	steps := 0
	h.step = func(what string) {
		if steps++; steps == last {
			os.Stdout.WriteString(what)
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Hour)
		}
	}
	k, err := h.open()
	if err != nil {
		return 3
	}
	if _, err := k.Steal("eth0", false); err != nil {
		return 3
	}
	r := k.Attend("eth0")
	r.Report(true, "")
	r.Report(false, "")
	if k.Claimed("").Holder != journal.Host || k.Release("") != nil {
		return 3
	}
	return 0
}

// After SIGKILL before any step of taking or returning a card, the next daemon restores the card's
// entire configuration.
func TestKilledAtEachStep(t *testing.T) {
	h := newHost(t)
	before := h.has(t)
	for step := 1; ; step++ {
		if err := os.RemoveAll(filepath.Join(h.dir, "journal.json")); err != nil {
			t.Fatal(err)
		}
		h.ip(t, "addr flush dev vpp1")
		h.interconnect(t)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(step), "CONTIV_STN_TEST_NETNS="+h.name, "CONTIV_STN_TEST_DIR="+h.dir)
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		if err == nil {
			if step < 10 {
				t.Fatalf("only %d steps ran", step-1)
			}
			t.Logf("%d steps", step-1)
			return
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("step %d: the daemon ended by itself: %v", step, err)
		}
		began := time.Now()
		k := h.keeper(t)
		if k.Claimed("") != nil {
			k.holds(t, journal.Host)
		}
		wantSame(t, "killed before step "+strconv.Itoa(step)+" ("+out.String()+")", h.has(t), before)
		h.wantShield(t, false)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v to give the card back", took)
		}
		if err := k.Release(""); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
