package text

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the end of a terminal that a program writes to.
func openTerminal(t *testing.T, columns uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.IoctlRetInt(int(master.Fd()), unix.TIOCGPTPEER)
	if err != nil {
		t.Skipf("the kernel does not open the other end: %v", err)
	}
	slave := os.NewFile(uintptr(fd), "terminal")
	t.Cleanup(func() { slave.Close() })
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return slave
}

func TestWidth(t *testing.T) {
	wide, tiny := openTerminal(t, 200), openTerminal(t, 20)
	for _, c := range []struct {
		columns string
		out     io.Writer
		want    int
	}{
		{"", &strings.Builder{}, DefaultWidth},
		{"", wide, 200},
		{"", tiny, narrowest},
		{"1000", wide, 1000},
		{"1", &strings.Builder{}, narrowest},
		{"many", wide, 200},
	} {
		t.Setenv("COLUMNS", c.columns)
		if got := Width(c.out); got != c.want {
			t.Errorf("COLUMNS=%q, %T: %d, want %d", c.columns, c.out, got, c.want)
		}
	}
}

// Tables use the columns there are.
func TestTablesAreAsWideAsTheTerminal(t *testing.T) {
	for _, width := range []int{60, 0, 300} {
		var b strings.Builder
		table := Printer{Writer: &b, Width: width}.Table("A", "TEXT")
		table.Add("x", strings.Repeat("word ", 50))
		table.Print()
		want, longest := width, 0
		if want == 0 {
			want = DefaultWidth
		}
		for line := range strings.Lines(b.String()) {
			longest = max(longest, len(strings.TrimSpace(line)))
		}
		if longest > want || longest < want-50 {
			t.Errorf("width %d: %d columns\n%s", width, longest, b.String())
		}
	}
}
