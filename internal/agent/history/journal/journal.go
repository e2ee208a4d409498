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
	// segments is the number of segments that Options.Bytes is divided into.
	segments = 16
	// keepFree is the number of bytes that the journal leaves free in the file system.
	keepFree = 32 << 20
	// piece is the number of bytes compressed between pauses: half a millisecond of work.
	piece = 64 << 10
	// bufferSize is the number of bytes that Append writes at once, except for longer lines.
	bufferSize = 64 << 10

	suffix     = ".log"
	compressed = suffix + ".gz"
	partial    = ".tmp"
)

// ErrFull is returned if the file system has less than keepFree bytes left.
var ErrFull = errors.New("the file system is full")

// castagnoli is created on first use, because most users of this package read no journal.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// Options of a journal.
type Options struct {
	// Dir is created if missing.
	Dir string
	// Bytes bounds the total size of all files.
	Bytes int64
	// Age bounds the age of lines; 0 means no limit.
	Age time.Duration
	// Rest is called after each piece of a compression with the time spent. Default: time.Sleep.
	Rest func(worked time.Duration)
	// free returns the free bytes of the file system. Default: statfs.
	free func(dir string) (uint64, error)
}

// Journal appends lines to the newest segment. It belongs to one goroutine.
type Journal struct {
	o      Options
	number int      // of the newest segment
	file   *os.File // nil: not open
	size   int64    // of the valid lines
	head   int64    // part of size that Full ignores
	buffer *bufio.Writer
}

// Open continues the newest segment of a directory.
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
	j := &Journal{o: o, buffer: bufio.NewWriterSize(nil, bufferSize)}
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

// Full reports whether Next should start a new segment.
func (j *Journal) Full() bool { return j.size-j.head >= j.o.Bytes/segments }

// EndHead excludes the lines so far from the size that Full considers.
func (j *Journal) EndHead() { j.head = j.size }

// Next starts a new segment, compresses the previous one and deletes old ones. It pauses during
// compression, because segments fill up while the node is busy.
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

// Append writes lines, whose data must not contain line breaks. After an error, none of them is in
// the journal.
func (j *Journal) Append(lines ...Line) error {
	var size int64
	for _, l := range lines {
		size += int64(len(l.Data)) + 48
	}
	if free, err := j.o.free(j.o.Dir); err == nil && free < keepFree+uint64(size) {
		return fmt.Errorf("%w: less than %d MB free in %s", ErrFull, keepFree>>20, j.o.Dir)
	}
	if err := j.open(); err != nil {
		return err
	}
	j.buffer.Reset(j.file)
	var written int64
	for _, l := range lines {
		written += writeLine(j.buffer, l)
	}
	if err := j.buffer.Flush(); err != nil {
		_ = j.file.Truncate(j.size) // frees space on a full disk; the CRC detects an incomplete line otherwise
		j.file.Close()
		j.file = nil
		return err
	}
	j.size += written
	return nil
}

// writeLine returns the number of bytes. The error is that of Flush.
func writeLine(w *bufio.Writer, l Line) int64 {
	var head [48]byte
	text := append(head[:0], "00000000 "...)
	text = append(text, l.Kind, ' ')
	text = append(strconv.AppendInt(text, l.Time.UnixNano(), 10), ' ')
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Update(crc32.Checksum(text[8:], castagnoli()), castagnoli(), l.Data))
	hex.Encode(text, sum[:])
	_, _ = w.Write(text)
	_, _ = w.Write(l.Data)
	_ = w.WriteByte('\n')
	return int64(len(text) + len(l.Data) + 1)
}

// open opens the segment and terminates an incomplete last line.
func (j *Journal) open() error {
	if j.file != nil {
		if _, err := os.Lstat(j.path()); err == nil {
			return nil
		}
		j.file.Close() // the file was removed
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

// Close closes the newest segment, which Open can continue.
func (j *Journal) Close() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// forget deletes the oldest segments beyond Bytes, and segments older than Age. The newest segment
// stays.
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

// compress replaces a segment by a compressed copy with the same modification time. It calls rest
// after each piece.
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
	for _, e := range entries { // sorted by name; a segment precedes its compressed copy
		if n := numberOf(e.Name()); n > 0 && (len(names) == 0 || numberOf(names[len(names)-1]) != n) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// numberOf returns the number of a segment, 0 for other files.
func numberOf(name string) int {
	digits, ok := strings.CutSuffix(strings.TrimSuffix(name, ".gz"), suffix)
	if n, err := strconv.Atoi(digits); ok && err == nil && n > 0 {
		return n
	}
	return 0
}
