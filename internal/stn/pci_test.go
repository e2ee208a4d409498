package stn

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/pci"
)

// noPCI is a machine without PCI bus.
type noPCI struct{}

func (noPCI) Write(string, string) error     { return fs.ErrNotExist }
func (noPCI) Resolve(string) (string, error) { return "", fs.ErrNotExist }
func (noPCI) List(string) ([]string, error)  { return nil, fs.ErrNotExist }

const address = "0000:00:08.0"

// fakePCI is a bus with one virtio card. Its network device is eth0 of a host. Unbinding the driver
// removes the device and its configuration; binding creates a device with another name.
type fakePCI struct {
	t        testing.TB
	host     *host
	mu       sync.Mutex
	driver   string
	override string
	refuse   bool // vfio-pci refuses it
	log      []string
}

func (f *fakePCI) Resolve(name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch name {
	case "bus/pci/devices/" + address:
		return "devices/pci0000:00/" + address, nil
	case "bus/pci/devices/" + address + "/driver":
		if f.driver != "" {
			return "bus/pci/drivers/" + f.driver, nil
		}
	}
	return "", fs.ErrNotExist
}

func (f *fakePCI) List(name string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch name {
	case "bus/pci/drivers":
		return []string{"virtio-pci", "vfio-pci"}, nil
	case "bus/pci/devices/" + address:
		if f.driver == "virtio-pci" {
			return []string{"vendor", "virtio0"}, nil
		}
		return []string{"vendor"}, nil
	case "bus/pci/devices/" + address + "/virtio0/net":
		for name := range strings.FieldsSeq("ens8 eth0") { // it may have been renamed
			if exec.Command("ip", "-n", f.host.name, "link", "show", name).Run() == nil {
				return []string{name}, nil
			}
		}
	}
	return nil, fs.ErrNotExist
}

func (f *fakePCI) Write(name, text string) error {
	if f.host.step != nil {
		f.host.step("write " + path.Base(name))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, path.Base(name)+"="+strings.TrimSpace(text))
	switch name {
	case "bus/pci/devices/" + address + "/driver_override":
		f.override = strings.TrimSpace(text)
	case "bus/pci/devices/" + address + "/driver/unbind":
		if f.driver == "virtio-pci" { // its present name
			ip(f.t, "-n "+f.host.network+" link del card")
		}
		f.driver = ""
	case "bus/pci/drivers_probe":
		switch {
		case f.override == "vfio-pci" && !f.refuse:
			f.driver = "vfio-pci"
		case f.override != "vfio-pci":
			f.driver = "virtio-pci"
			f.host.ip(f.t, "link add ens8 type veth peer name card netns "+f.host.network)
			ip(f.t, "-n "+f.host.network+" link set card up")
		}
	default:
		return errors.New("no such file")
	}
	return nil
}

func onBus(string) (driver, bus string, err error) { return "virtio_net", address, nil }

func TestPCIDevice(t *testing.T) {
	h := newHost(t)
	bus := &fakePCI{t: t, host: h, driver: "virtio-pci"}
	h.bus = pci.Bus{Sysfs: bus}
	before := withoutNumbers(h.has(t))
	k := h.keeper(t)
	k.busOf = onBus
	defer k.Close()
	e := mustSteal(t, k)
	if e.PCI != address || e.PCIDriver != "virtio-pci" || bus.driver != "vfio-pci" {
		t.Errorf("stolen: %+v, with the driver %s", e, bus.driver)
	}
	if again := mustSteal(t, k); len(again.State.Prefixes()) != 3 {
		t.Errorf("stolen twice, it has the addresses %v", again.State.Prefixes())
	}
	h.interconnect(t)
	k.checkCards()
	r := k.Attend("eth0")
	r.Report(false, "the agent is starting")
	k.holds(t, journal.VSwitch)
	r.Report(true, "")
	k.holds(t, journal.VSwitch)

	r.Report(false, "VPP is gone")
	k.holds(t, journal.Host)
	wantSame(t, "given back", withoutNumbers(h.has(t)), before)
	if bus.driver != "virtio-pci" || bus.override != "" {
		t.Errorf("the device has the driver %s, want %q", bus.driver, bus.override)
	}
	// A restarted VPP does not have the device until it is stolen again.
	r.Report(true, "")
	k.holds(t, journal.Host)
	mustSteal(t, k)
	k.holds(t, journal.VSwitch)
	r.Report(true, "")

	// The daemon ends in some way; its successor knows.
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	bus.host, h.limits.Start = h, 0
	next := h.keeper(t)
	defer next.Close()
	next.holds(t, journal.Host)
	wantSame(t, "given back by the next daemon", withoutNumbers(h.has(t)), before)
}

// If the daemon ends before any step of taking or returning a PCI device, also between writes to
// sysfs, the next daemon restores the card's entire configuration.
func TestPCIDeviceKilledAtEachStep(t *testing.T) {
	h := newHost(t)
	bus := &fakePCI{t: t, host: h, driver: "virtio-pci"}
	h.bus = pci.Bus{Sysfs: bus}
	before := withoutNumbers(h.has(t))
	for last := 1; ; last++ {
		h.ip(t, "addr flush dev vpp1")
		h.interconnect(t)
		h.limits = Limits{Absent: time.Hour, Silent: time.Hour, Down: time.Hour, Start: time.Hour} // ended, so it makes no further changes
		begun, steps, killedAt := false, 0, ""
		h.step = func(what string) {
			if !begun {
				return
			}
			if steps++; steps == last {
				killedAt = what
				runtime.Goexit()
			}
		}
		k := h.keeper(t)
		k.busOf = onBus
		k.checkCards()
		begun = true
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := k.Steal("eth0", false); err != nil {
				t.Error(err)
			}
			r := k.Attend("eth0")
			r.Report(true, "")
			r.Report(false, "VPP is gone")
			if err := k.Release(""); err != nil {
				t.Error(err)
			}
		}()
		<-ended
		k.mu.Lock()
		k.closed = true
		k.mu.Unlock()
		k.kernel.Close()
		h.step = nil
		if killedAt == "" {
			if last < 15 {
				t.Errorf("only %d steps ran", last-1)
			}
			t.Logf("%d steps", last-1)
			return
		}
		h.limits = quick
		h.limits.Start = 0
		next := h.keeper(t)
		if next.Claimed("") != nil {
			next.holds(t, journal.Host)
		}
		when := fmt.Sprintf("ended before step %d (%s)", last, killedAt)
		wantSame(t, when, withoutNumbers(h.has(t)), before)
		if bus.driver != "virtio-pci" || bus.override != "" {
			t.Errorf("%s: the device has the driver %s, want %q", when, bus.driver, bus.override)
		}
		if err := next.Release(""); err != nil {
			t.Fatal(err)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
}

// withoutNumbers removes device indexes and the link-local address derived from the MAC.
func withoutNumbers(text string) string {
	var list []string
	for _, line := range strings.Split(text, "\n") {
		if _, rest, ok := strings.Cut(line, ": eth0"); ok {
			line = "eth0" + rest
			if strings.Contains(line, "@") {
				line = "eth0" + line[strings.Index(line, ":"):]
			}
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// If VPP's driver refuses a device, the host keeps it with its configuration.
func TestPCIDeviceThatCannotBeTaken(t *testing.T) {
	h := newHost(t)
	bus := &fakePCI{t: t, host: h, driver: "virtio-pci", refuse: true}
	h.bus = pci.Bus{Sysfs: bus}
	before := withoutNumbers(h.has(t))
	k := h.keeper(t)
	k.busOf = onBus
	defer k.Close()
	if _, err := k.Steal("eth0", false); err == nil || !strings.Contains(err.Error(), "refused it") {
		t.Errorf("error is %v", err)
	}
	k.holds(t, journal.Host)
	wantSame(t, "given back", withoutNumbers(h.has(t)), before)
}

// A VPP that does not start in time loses its PCI device.
func TestVPPDoesNotStart(t *testing.T) {
	h := newHost(t)
	h.bus, h.limits.Start = pci.Bus{Sysfs: &fakePCI{t: t, host: h, driver: "virtio-pci"}}, time.Millisecond
	before := withoutNumbers(h.has(t))
	k := h.keeper(t)
	k.busOf = onBus
	defer k.Close()
	mustSteal(t, k)
	k.holds(t, journal.Host)
	wantSame(t, "given back", withoutNumbers(h.has(t)), before)
	if got := k.Claimed("").Reason; got != "the vswitch did not start in time" {
		t.Errorf("the reason is %q", got)
	}
}

func TestCardThatKeepsItsDriver(t *testing.T) {
	h := newHost(t)
	h.bus = pci.Bus{Sysfs: &fakePCI{t: t, host: h, driver: "virtio-pci"}}
	h.keepDriver = []string{"eth0"}
	k := h.keeper(t)
	k.busOf = onBus
	defer k.Close()
	if e := mustSteal(t, k); e.PCI != "" || e.Holder != journal.Host {
		t.Errorf("stolen: %+v", e)
	}
}
