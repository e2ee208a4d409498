package journal

import (
	"bufio"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Line is one entry of a journal.
type Line struct {
	Kind byte // a letter
	Time time.Time
	// Data is JSON. In a line that is read, it is valid until the next line.
	Data []byte
}

// maxLine bounds the length of a readable line.
const maxLine = 256 << 20

// Segment is a file of a journal.
type Segment struct {
	fsys fs.FS
	name string
	// First is the time of its first line.
	First time.Time
}

// Name identifies the segment in the journal. It stays the same after compression.
func (s Segment) Name() string { return strings.TrimSuffix(s.name, ".gz") }

// Segments returns the segments that have a readable line, oldest first.
func Segments(fsys fs.FS) ([]Segment, error) {
	names, err := Files(fsys)
	if err != nil {
		return nil, err
	}
	var segments []Segment
	for _, name := range names {
		s := Segment{fsys: fsys, name: name}
		err := s.Read(func(l Line) bool {
			s.First = l.Time
			return false
		})
		if err == nil && !s.First.IsZero() {
			segments = append(segments, s)
		}
	}
	return segments, nil
}

// Read calls visit with each line in order until it returns false. It skips damaged lines. The rest
// of a damaged compressed segment is lost. A deleted segment has no lines.
func (s Segment) Read(visit func(Line) bool) error { return s.ReadOnly("", visit) }

// ReadOnly is Read for lines of the given kinds; "" means all kinds.
func (s Segment) ReadOnly(kinds string, visit func(Line) bool) error {
	file, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var content io.Reader = file
	if info, err := file.Stat(); err == nil && strings.HasSuffix(info.Name(), ".gz") {
		if content, err = gzip.NewReader(file); err != nil {
			return nil // damaged
		}
	}
	r := bufio.NewReaderSize(content, 64<<10)
	var long []byte
	for {
		part, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(long) < maxLine {
				long = append(long, part...)
			}
			continue
		}
		line := part
		if len(long) > 0 {
			long = append(long, part...)
			line = long
		}
		if wanted := kinds == "" || len(line) > 9 && strings.IndexByte(kinds, line[9]) >= 0; wanted {
			if l, ok := parse(bytes.TrimSuffix(line, []byte{'\n'})); ok && !visit(l) {
				return nil
			}
		}
		long = long[:0]
		if err != nil {
			return nil // end or damage
		}
	}
}

// open opens the segment, which may have been compressed meanwhile.
func (s Segment) open() (fs.File, error) {
	file, err := s.fsys.Open(s.name)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(s.name, ".gz") {
		return s.fsys.Open(s.name + ".gz")
	}
	return file, err
}

func parse(line []byte) (l Line, ok bool) {
	if len(line) < 12 || line[8] != ' ' || line[10] != ' ' {
		return l, false
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(line[8:], castagnoli()) {
		return l, false
	}
	at, data, ok := bytes.Cut(line[11:], []byte{' '})
	ns, err := strconv.ParseInt(string(at), 10, 64)
	return Line{Kind: line[9], Time: time.Unix(0, ns), Data: data}, ok && err == nil
}
