// Package terminaltest creates terminals for tests.
package terminaltest

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open returns the terminal end for a program, and a function that closes it and returns the
// program's output.
func Open(t testing.TB, columns uint16) (end *os.File, shown func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	fd, _, failed := unix.Syscall(unix.SYS_IOCTL, master.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if failed != 0 {
		t.Skipf("the kernel does not open the other end: %v", failed)
	}
	end = os.NewFile(fd, "terminal")
	t.Cleanup(func() { end.Close() })
	if err := unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&out, master) // ends with an error when the other end is closed
	}()
	return end, func() string {
		end.Close()
		<-done
		return string(bytes.ReplaceAll(out.Bytes(), []byte("\r\n"), []byte("\n")))
	}
}
