package journal

import (
	"bytes"
	"crypto/sha512"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, o Options) *Journal {
	t.Helper()
	if o.Bytes == 0 {
		o.Bytes = 1 << 20
	}
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func line(data string) Line { return Line{'x', time.Unix(7, 0), []byte(data)} }

func (j *Journal) must(t *testing.T, data ...string) {
	t.Helper()
	for _, d := range data {
		if err := j.Append(line(d)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, dir string) []string {
	t.Helper()
	segments, err := Segments(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	data := []string{}
	for _, s := range segments {
		if err := s.Read(func(l Line) bool {
			if l.Kind != 'x' || !l.Time.Equal(time.Unix(7, 0)) {
				t.Errorf("line %c %v", l.Kind, l.Time)
			}
			data = append(data, string(l.Data))
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

func TestLinesSurviveRestartsAndSegments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "dir")
	long := `{"a":"` + strings.Repeat("z", 200<<10) + `"}`
	j := open(t, Options{Dir: dir})
	j.must(t, "1", long)
	j.Close()
	j = open(t, Options{Dir: dir})
	j.must(t, "3")
	if err := j.Next(); err != nil {
		t.Fatal(err)
	}
	j.must(t, "4")
	if diff := cmp.Diff([]string{"1", long, "3", "4"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	if names, _ := filepath.Glob(dir + "/*"); len(names) != 2 || !strings.HasSuffix(names[0], ".log.gz") || !strings.HasSuffix(names[1], ".log") {
		t.Errorf("files: %v", names)
	}
}

// Damage by a crash or a disk error affects no other line.
func TestDamageCostsTheDamagedLinesOnly(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		want   []string
	}{
		{"torn end", func(b []byte) []byte { return b[:len(b)-3] }, []string{"one", "two", "after"}},
		{"flipped bit", func(b []byte) []byte { b[bytes.Index(b, []byte("two"))] ^= 1; return b }, []string{"one", "three", "after"}},
		{"zeroes", func(b []byte) []byte { return append(b, make([]byte, 5000)...) }, []string{"one", "two", "three", "after"}},
		{"garbage", func(b []byte) []byte { return append([]byte("\n\nwhat\n"), b...) }, []string{"one", "two", "three", "after"}},
		{"empty", func([]byte) []byte { return nil }, []string{"after"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, Options{Dir: dir})
			j.must(t, "one", "two", "three")
			j.Close()
			file := filepath.Join(dir, "00000001.log")
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, c.damage(content), 0o600); err != nil {
				t.Fatal(err)
			}
			j = open(t, Options{Dir: dir})
			j.must(t, "after")
			if diff := cmp.Diff(c.want, read(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDamagedCompressedSegment(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	j.must(t, "one")
	if err := j.Next(); err != nil {
		t.Fatal(err)
	}
	j.must(t, "two")
	if err := os.WriteFile(filepath.Join(dir, "00000001.log.gz"), []byte("no gzip"), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"two"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// An interrupted compression leaves both files. No line is read twice, and the compression is
// repeated.
func TestInterruptedCompression(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	j.must(t, "one")
	plain, err := os.ReadFile(filepath.Join(dir, "00000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Next(); err != nil {
		t.Fatal(err)
	}
	j.must(t, "two")
	j.Close()
	if err := os.WriteFile(filepath.Join(dir, "00000001.log"), plain, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	open(t, Options{Dir: dir})
	if _, err := os.Stat(filepath.Join(dir, "00000001.log")); err == nil {
		t.Error("the segment was not removed after its compression")
	}
	if diff := cmp.Diff([]string{"one", "two"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestCompressionRests(t *testing.T) {
	rests := 0
	j := open(t, Options{Dir: t.TempDir(), Rest: func(time.Duration) { rests++ }})
	for i := range 40 {
		j.must(t, fmt.Sprint(i, strings.Repeat("x", 10_000)))
	}
	if err := j.Next(); err != nil {
		t.Fatal(err)
	}
	if want := 400_000 / piece; rests < want {
		t.Errorf("compressing %d bytes rested %d times, want at least %d", 400_000, rests, want)
	}
	j.must(t, "next")
	if got := read(t, j.o.Dir); len(got) != 41 {
		t.Errorf("%d lines, want 41", len(got))
	}
}

func TestBytesAreBounded(t *testing.T) {
	dir := t.TempDir()
	const limit = 64 << 10
	j := open(t, Options{Dir: dir, Bytes: limit})
	for i := range 3000 {
		if j.Full() {
			if err := j.Next(); err != nil {
				t.Fatal(err)
			}
		}
		j.must(t, fmt.Sprintf("%d %x", i, sha512.Sum512([]byte{byte(i), byte(i >> 8)}))) // hardly compressible
	}
	var total int64
	names, _ := filepath.Glob(dir + "/*")
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > limit+limit/segments+200 {
		t.Errorf("%d bytes in %d files", total, len(names))
	}
	lines := read(t, dir)
	if len(lines) < 100 || len(lines) == 3000 || !strings.HasPrefix(lines[len(lines)-1], "2999 ") {
		t.Errorf("%d lines are left, the last is %.10s", len(lines), lines[len(lines)-1])
	}
}

func TestOldSegmentsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, Age: time.Hour})
	j.must(t, "old")
	if err := j.Next(); err != nil {
		t.Fatal(err)
	}
	j.must(t, "new")
	before := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "00000001.log.gz"), before, before); err != nil {
		t.Fatal(err)
	}
	if err := j.Next(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"new"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// A full disk rejects lines and is tried again. The rest of the journal is not affected.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	free := uint64(1 << 40)
	j := open(t, Options{Dir: dir, free: func(string) (uint64, error) { return free, nil }})
	j.must(t, "before")
	free = 1000
	if err := j.Append(line("lost")); !errors.Is(err, ErrFull) {
		t.Errorf("error %v", err)
	}
	free = 1 << 40
	j.must(t, "after")
	if diff := cmp.Diff([]string{"before", "after"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// A partial write leaves nothing behind.
func TestWriteThatFails(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	j.must(t, "before")
	j.file.Close() // simulates a failing disk
	if err := j.Append(line("lost")); err == nil {
		t.Fatal("no error")
	}
	j.must(t, "after")
	if diff := cmp.Diff([]string{"before", "after"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestRemovedDirectoryIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	j := open(t, Options{Dir: dir})
	j.must(t, "before")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	j.must(t, "after")
	if diff := cmp.Diff([]string{"after"}, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}
