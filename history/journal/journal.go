package journal

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// segments that the bound of bytes is divided by: so much is forgotten at a time.
	segments = 16
	// keepFree bytes of the file system are left to others.
	keepFree = 32 << 20
	// piece of a segment that is compressed before others have their turn, in bytes: half a millisecond of work.
	piece = 64 << 10
	// keptText bounds the memory that is kept from one Append for the next.
	keptText = 1 << 20

	suffix     = ".log"
	compressed = suffix + ".gz"
	partial    = ".tmp"
)

// ErrFull: the file system is so full that no line is written.
var ErrFull = errors.New("the file system is full")

// castagnoli is made when it is needed first: contivctl, which knows the answers of a history, takes a journal from reports alone.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Options of a journal.
type Options struct {
	// Dir is made if it does not exist.
	Dir string
	// Bytes bounds all files together.
	Bytes int64
	// Age bounds how long a line is kept after it was written; 0: for ever.
	Age time.Duration
	// Rest is called with what each piece of a compression has taken; nil: time.Sleep.
	Rest func(worked time.Duration)
	// free returns how many bytes of the file system are free; nil: what the kernel says.
	free func(dir string) (uint64, error)
}

// Journal is what is appended to. One goroutine uses it.
type Journal struct {
	o      Options
	number int      // of the segment that is appended to
	file   *os.File // nil: none is open
	size   int64    // of its good lines
	head   int64    // of them, does not count for Full
	text   []byte   // of the last Append, to be overwritten
}

// Open goes on with the newest segment of a directory.
func Open(o Options) (*Journal, error) {
	if o.free == nil {
		o.free = freeBytes
	}
	if o.Rest == nil {
		o.Rest = time.Sleep
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	j := &Journal{o: o}
	names, err := Files(os.DirFS(o.Dir))
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		j.number = max(j.number, numberOf(name))
		if i+1 < len(names) && strings.HasSuffix(name, suffix) { // its compression was interrupted
			if err := compress(filepath.Join(o.Dir, name), func(time.Duration) {}); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	if len(names) == 0 || strings.HasSuffix(names[len(names)-1], compressed) {
		j.number++
	}
	return j, j.forget(time.Now())
}

func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// Full reports whether the next line should begin a segment, by Next.
func (j *Journal) Full() bool { return j.size-j.head >= j.o.Bytes/segments }

// EndHead says that what was written so far begins the segment and does not count for Full.
func (j *Journal) EndHead() { j.head = j.size }

// Next begins a new segment, and forgets old ones. It takes twice as long as compressing takes: segments become full
// while much happens on the node, and whoever waits for that comes first.
func (j *Journal) Next() error {
	if err := j.Close(); err != nil {
		return err
	}
	old := j.path()
	j.number++
	j.size, j.head = 0, 0
	err := compress(old, j.o.Rest)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, j.forget(time.Now()))
}

// Append writes lines, with JSON on one line each. After an error nothing of them is there.
func (j *Journal) Append(lines ...Line) error {
	size := 0
	for _, l := range lines {
		size += len(l.Data) + 48
	}
	text := slices.Grow(j.text[:0], size)
	if cap(text) <= keptText {
		j.text = text
	}
	for _, l := range lines {
		begin := len(text)
		text = append(text, "00000000 "...)
		text = append(text, l.Kind, ' ')
		text = strconv.AppendInt(text, l.Time.UnixNano(), 10)
		text = append(append(text, ' '), l.Data...)
		var sum [4]byte
		binary.BigEndian.PutUint32(sum[:], crc32.Checksum(text[begin+8:], castagnoli()))
		hex.Encode(text[begin:], sum[:])
		text = append(text, '\n')
	}
	if free, err := j.o.free(j.o.Dir); err == nil && free < keepFree+uint64(len(text)) {
		return fmt.Errorf("%w: less than %d MB are left at %s", ErrFull, keepFree>>20, j.o.Dir)
	}
	if err := j.open(); err != nil {
		return err
	}
	n, err := j.file.Write(text)
	if err != nil {
		if n > 0 {
			_ = j.file.Truncate(j.size) // a full disk lets go of what it took; else the CRC tells
		}
		j.file.Close()
		j.file = nil
		return err
	}
	j.size += int64(n)
	return nil
}

// open opens the segment, and ends the line that a process left in the middle.
func (j *Journal) open() error {
	if j.file != nil {
		if _, err := os.Lstat(j.path()); err == nil {
			return nil
		}
		j.file.Close() // somebody removed it
		j.file = nil
		if err := os.MkdirAll(j.o.Dir, 0o700); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(j.path(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	j.size = info.Size()
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, j.size-1); j.size > 0 && err == nil && last[0] != '\n' {
		n, err := f.Write([]byte{'\n'})
		if err != nil {
			f.Close()
			return err
		}
		j.size += int64(n)
	}
	j.file = f
	return nil
}

func (j *Journal) path() string {
	return filepath.Join(j.o.Dir, fmt.Sprintf("%08d%s", j.number, suffix))
}

// Close leaves the newest segment to be gone on with.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// forget removes segments that are too much, oldest first, and those that are too old. The one that is
// appended to stays.
func (j *Journal) forget(now time.Time) error {
	names, err := Files(os.DirFS(j.o.Dir))
	if err != nil {
		return err
	}
	var total int64
	var errs []error
	for _, name := range slices.Backward(names) {
		path := filepath.Join(j.o.Dir, name)
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		total += info.Size()
		old := j.o.Age > 0 && now.Sub(info.ModTime()) > j.o.Age
		if (total > j.o.Bytes || old) && numberOf(name) != j.number {
			errs = append(errs, os.Remove(path))
			total -= info.Size()
		}
	}
	return errors.Join(errs...)
}

// compress puts a compressed copy in the place of a segment, with the time of its last line. It rests after each piece.
func compress(path string, rest func(worked time.Duration)) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	target := strings.TrimSuffix(path, suffix) + compressed
	to, err := os.OpenFile(target+partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(to, piece) // gzip writes a few hundred bytes at a time
	w, _ := gzip.NewWriterLevel(buffer, gzip.BestSpeed)
	for err == nil {
		began := time.Now()
		_, err = io.CopyN(w, from, piece)
		rest(time.Since(began))
	}
	if err == io.EOF {
		err = nil
	}
	err = errors.Join(err, w.Close(), buffer.Flush(), to.Sync(), to.Close())
	if err == nil {
		err = errors.Join(os.Chtimes(target+partial, info.ModTime(), info.ModTime()), os.Rename(target+partial, target))
	}
	if err != nil {
		os.Remove(target + partial)
		return err
	}
	return os.Remove(path)
}

// Files returns the names of the segments in a directory, oldest first, each once.
func Files(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries { // sorted by name; a segment comes before its compressed copy
		if n := numberOf(e.Name()); n > 0 && (len(names) == 0 || numberOf(names[len(names)-1]) != n) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// numberOf returns the number of a segment, 0 if the file is none.
func numberOf(name string) int {
	digits, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), suffix)
	if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 {
		return n
	}
	return 0
}
