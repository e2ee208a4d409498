package report

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// A report comes from elsewhere, and a small file can claim to be huge. Limits of unpacking:
const (
	// maxUnpacked bounds the unpacked bytes of a report, which are also at most maxRatio times the
	// archive plus freeBytes.
	maxUnpacked = 4 << 30
	maxRatio    = 50
	freeBytes   = 64 << 20
	// maxFile bounds the bytes of an answer, maxSegment of an unpacked history segment, and
	// maxIndex of a list of files.
	maxFile    = 64 << 20
	maxSegment = 256 << 20
	maxIndex   = 4 << 20
	// maxValues bounds the commas of the JSON in one file, because decoded values take many times
	// their size.
	maxValues = 4 << 20
	// maxFiles bounds the number of files.
	maxFiles = 200_000
	// storedBytes is the size from which files are kept compressed.
	storedBytes = 64 << 10
)

var errTooLarge = errors.New("too large")

// unpack returns the files below the archive's directory. It keeps them compressed, so it needs
// about the archive's size of memory.
func unpack(archive io.Reader) (fs.FS, error) {
	packed := &counter{from: archive}
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	plain := &counter{from: unzipped, limit: func() int64 { return min(maxUnpacked, freeBytes+maxRatio*packed.bytes) }}
	from := tar.NewReader(plain)
	var kept bytes.Buffer
	w := zip.NewWriter(&kept) // a zip archive implements a file system
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestSpeed) })
	buffer := make([]byte, 64<<10)
	for files := 0; ; files++ {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if files == maxFiles {
			return nil, fmt.Errorf("%w: more than %d files", errTooLarge, maxFiles)
		}
		_, name, below := strings.Cut(header.Name, "/")
		if !below || header.Typeflag != tar.TypeReg || !fs.ValidPath(name) {
			continue
		}
		if err := keepFile(w, name, header.Size, from, buffer, plain); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(kept.Bytes()), int64(kept.Len()))
}

// keepFile adds a file. It copies through the buffer and counts the unpacked size of a compressed
// file.
func keepFile(w *zip.Writer, name string, size int64, from io.Reader, buffer []byte, whole *counter) error {
	most := int64(maxFile)
	if strings.Contains(name, "/history/") {
		most = maxSegment
	}
	if size > most {
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", errTooLarge, size, most)
	}
	header := &zip.FileHeader{Name: name, Method: zip.Store}
	if size > storedBytes {
		header.Method = zip.Deflate
	}
	to, err := w.CreateHeader(header)
	if err != nil {
		return err
	}
	if strings.HasSuffix(name, ".gz") { // a segment of an agent's history
		var inner bytes.Buffer
		if _, err := io.CopyBuffer(io.MultiWriter(to, &inner), from, buffer); err != nil {
			return err
		}
		unzipped, err := gzip.NewReader(&inner)
		if err != nil {
			return nil // readers skip damaged segments
		}
		content := &counter{from: unzipped, limit: func() int64 { return min(maxSegment, whole.limit()-whole.bytes) }}
		if _, err := io.CopyBuffer(&values{}, content, buffer); errors.Is(err, errTooLarge) {
			return err
		}
		whole.bytes += content.bytes
		return nil
	}
	_, err = io.CopyBuffer(io.MultiWriter(to, &values{}), from, buffer)
	return err
}

// counter counts the bytes read, up to a limit; nil has no limit.
type counter struct {
	from  io.Reader
	bytes int64
	limit func() int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += int64(n)
	if c.limit != nil && c.bytes > c.limit() {
		return 0, fmt.Errorf("%w: it unpacks to more than %d bytes", errTooLarge, c.limit())
	}
	return n, err
}

// values counts the values of JSON written to it.
type values struct{ commas int }

func (v *values) Write(p []byte) (int, error) {
	if v.commas += bytes.Count(p, []byte{','}); v.commas > maxValues {
		return 0, fmt.Errorf("%w: it has more than %d values", errTooLarge, maxValues)
	}
	return len(p), nil
}
