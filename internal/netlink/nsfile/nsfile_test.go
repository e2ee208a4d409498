package nsfile_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/nsfile"
	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(unix.Mkfifo(at("fifo"), 0o600))
	must(os.WriteFile(at("file"), []byte("x"), 0o600))
	must(os.Symlink(at("loop"), at("loop")))
	must(os.Symlink("/proc/self/ns/net", at("link")))
	socket, err := net.Listen("unix", at("socket"))
	must(err)
	defer socket.Close()
	for path, want := range map[string]error{
		"/proc/self/ns/net":              nil,
		at("link"):                       nil,
		"":                               nsfile.ErrNone,
		at("nothing"):                    nsfile.ErrNone,
		at("file/below"):                 nsfile.ErrNone,
		at("file"):                       nsfile.ErrNone,
		"/proc/999999999/ns/net":         nsfile.ErrNone,
		"/proc/self/ns/mnt":              nsfile.ErrOther,
		"/proc/self/ns/user":             nsfile.ErrOther,
		at("fifo"):                       nsfile.ErrOther,
		at("socket"):                     nsfile.ErrOther,
		at("loop"):                       nsfile.ErrOther,
		dir:                              nsfile.ErrOther,
		"/dev/tty":                       nsfile.ErrOther,
		"/dev/null":                      nsfile.ErrOther,
		at(strings.Repeat("x", 256)):     nsfile.ErrOther,
		"/" + strings.Repeat("x/", 4096): nsfile.ErrOther,
		"/proc/self/ns/net\x00x":         nsfile.ErrOther,
		"/proc/self/fd/999999":           nsfile.ErrNone,
		at("\x1b[2J" + strings.Repeat("\xff\n", 64)): nsfile.ErrNone,
	} {
		opened := make(chan error, 1)
		go func() {
			file, err := nsfile.Open(path)
			if err == nil {
				_, err = nsfile.Identify(file)
				file.Close()
			}
			opened <- err
		}()
		select {
		case err := <-opened:
			if !errors.Is(err, want) {
				t.Errorf("%.100q: %v, want %v", path, err, want)
			}
			if err != nil && (len(err.Error()) > 700 || strings.ContainsAny(err.Error(), "\x00\x1b\n")) {
				t.Errorf("error text: %q", err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("opening %q blocks", path)
		}
	}
}

func TestIdentify(t *testing.T) {
	var ids []nsfile.ID
	for _, path := range []string{"/proc/self/ns/net", "/proc/thread-self/ns/net"} {
		file, err := nsfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		id, err := nsfile.Identify(file)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if ids[0] != ids[1] || ids[0].Ino == 0 {
		t.Errorf("%v", ids)
	}
}
