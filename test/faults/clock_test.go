package faults

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// TestClock changes the clock of the agents, not of the machine: time.Now of a specially built
// agent adds an offset from a file next to the program. The monotonic clock of timers and durations
// is unaffected, as when a machine's clock is set.
func TestClock(t *testing.T) {
	t.Parallel()
	if !*jumpClock {
		t.Skip("it builds an agent with a movable clock: run with -args -clock")
	}
	if binaries == "" {
		t.Skip("the lab makes network namespaces; run the tests as root")
	}
	bin := filepath.Join(binaries, "clock")
	buildWithClock(t, bin)
	setClock(t, bin, 0)
	// A lab's certificates expire within a year, so use plain text.
	s := newSiteWith(t, "ck", lab.Options{BinDir: bin, PlainText: true})
	const year = 365 * 24 * time.Hour
	f := begin(t, s, "Clock jumps", "All clocks jump a year ahead, then two years back. Each time, a pod is added, a pod's route is deleted by hand, and an agent is started.")
	f.row.Until = "until the deleted route was back, at most"
	for i, jump := range []time.Duration{year, -year} {
		setClock(t, bin, jump)
		f.flow(100)
		f.jumped(t, jump)
		late := s.pod(t, fmt.Sprintf("late%d", i), "node1")
		if err := s.connected(t, late); err != nil {
			t.Error(err)
		}
		d, err := s.DeleteRoute(t.Context(), "node1", netip.PrefixFrom(late.Address, 32))
		if err != nil {
			t.Fatal(err)
		}
		f.row.Healed = max(f.row.Healed, d.Restored.Sub(d.Deleted))
		s.kill(t, "node2")
		s.start(t, "node2")
		s.settle(t)
	}
	f.row.Kept = "Delays, deadlines, retries and the age of records use the monotonic clock."
	f.end()
}

// setClock sets the offset of the agents in a directory.
func setClock(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "contiv-agent.clock"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(int64(by.Seconds())))
	if _, err := file.WriteAt(seconds, 0); err != nil {
		t.Fatal(err)
	}
}

func (f *fault) jumped(t *testing.T, jump time.Duration) {
	t.Helper()
	var events []struct{ ProcessingStart time.Time }
	if err := f.Agent("node1").Post(t.Context(), "/controller/resync", nil); err != nil {
		t.Fatal(err)
	}
	want := time.Now().Add(jump)
	await.That(t, "an event has a time near "+want.Format(time.DateOnly), func() error {
		if err := f.Agent("node1").Get(t.Context(), "/controller/event-history", &events); err != nil {
			return err
		}
		last := events[len(events)-1].ProcessingStart
		if last.Sub(want).Abs() > time.Hour {
			return fmt.Errorf("the last event was at %v", last)
		}
		return nil
	})
}

// buildWithClock builds an agent with an adjustable clock and links the other programs.
func buildWithClock(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"contiv-etcd", "contiv-ksr", "contiv-cni", "contivctl", "contiv-lab"} {
		if err := os.Symlink(filepath.Join(binaries, program), filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		t.Fatal(err)
	}
	const now = "sec, nsec, mono := runtimeNow()\n"
	before, after, ok := bytes.Cut(source, []byte("\nfunc Now() Time {\n\t"+now))
	if !ok {
		t.Skip("time.Now of this Go version is not as this test knows it")
	}
	moved := fmt.Sprintf("%s\nfunc Now() Time {\n\t%s\tsec += clockJump()\n%s", before, now, after)
	overlay := map[string]map[string]string{"Replace": {}}
	for name, content := range map[string]string{"time.go": moved, "clockjump.go": clockJump} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][filepath.Join(std, name)] = file
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := labtest.Build("-overlay", file, "-o", dir+"/", "./cmd/contiv-agent"); err != nil {
		t.Fatal(err)
	}
}

// clockJump is added to package time. It reads the offset in seconds as 8 bytes from a file next to
// the program. The file is mapped, because time.Now must not make system calls.
const clockJump = `package time

import (
	"syscall"
	"unsafe"
)

var clockFile = func() []byte {
	var buf [1024]byte
	n, _ := syscall.Readlink("/proc/self/exe", buf[:])
	fd, err := syscall.Open(string(buf[:max(n, 0)])+".clock", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	defer syscall.Close(fd)
	mapped, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return mapped
}()

func clockJump() int64 {
	if clockFile == nil {
		return 0 // not initialized yet
	}
	return *(*int64)(unsafe.Pointer(&clockFile[0]))
}
`
