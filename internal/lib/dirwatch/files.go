package dirwatch

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFileSize limits the size of a file, in bytes.
const maxFileSize = 64 << 20

// Snapshot is the state of a directory.
type Snapshot[T any] struct {
	// Files sorted by name.
	Files []File[T]
	// Err is set if the directory cannot be read; Files is then the previous state.
	Err error
}

// Usable reports whether the directory can be read and each file has had valid content.
func (s Snapshot[T]) Usable() bool {
	return s.Err == nil && !slices.ContainsFunc(s.Files, func(f File[T]) bool { return !f.Usable })
}

// File is a file of the directory.
type File[T any] struct {
	// Name without the directory.
	Name string
	// Content is the last valid content. Usable: it exists.
	Content T
	Usable  bool
	// Err is the error of the present text, or nil.
	Err error
}

type files[T any] struct {
	dir   string
	parse func(name string, text []byte) (T, error)
	log   *slog.Logger

	known   map[string]*file[T]
	err     error
	scanned bool
	// changed since the last scan began
	changed bool
}

type file[T any] struct {
	File[T]
	// info of the text that was last read; nil: read it again
	info fs.FileInfo
	// digest of the text that was last parsed; it detects changes of the timestamp alone
	digest [sha256.Size]byte
}

func newFiles[T any](dir string, parse func(string, []byte) (T, error), log *slog.Logger) *files[T] {
	return &files[T]{dir: dir, parse: parse, log: log, known: make(map[string]*file[T])}
}

// forget makes the next scan read all files.
func (f *files[T]) forget() {
	for _, k := range f.known {
		k.info = nil
	}
}

func (f *files[T]) snapshot() Snapshot[T] {
	s := Snapshot[T]{Err: f.err}
	for _, name := range slices.Sorted(maps.Keys(f.known)) {
		s.Files = append(s.Files, f.known[name].File)
	}
	return s
}

// scan reads the changed files, and always the ones in touched. It reports whether any content or
// error changed.
func (f *files[T]) scan(touched map[string]bool) bool {
	f.changed = !f.scanned
	f.scanned = true
	entries, err := os.ReadDir(f.dir)
	if !sameText(err, f.err) {
		f.changed = true
		if err != nil {
			f.log.Error("Reading the directory failed; the previous files stay in force", "error", err)
		}
	}
	f.err = err
	if err == nil {
		f.readAll(entries, touched)
	}
	return f.changed
}

func (f *files[T]) readAll(entries []fs.DirEntry, touched map[string]bool) {
	present := make(map[string]bool)
	for _, e := range entries {
		name := e.Name()
		if !isOurs(name) {
			continue
		}
		info, err := os.Stat(filepath.Join(f.dir, name)) // follows symbolic links
		if os.IsNotExist(err) && e.Type()&fs.ModeSymlink == 0 {
			continue // deleted meanwhile
		}
		if err == nil && !info.Mode().IsRegular() {
			continue
		}
		present[name] = true
		k := f.known[name]
		if k == nil {
			k = &file[T]{File: File[T]{Name: name}}
			f.known[name] = k
			f.changed = true
		}
		switch {
		case err != nil:
			f.fail(k, err)
		case touched[name] || k.info == nil || !sameStamp(info, k.info):
			f.read(k, info)
		}
	}
	for name := range f.known {
		if !present[name] {
			delete(f.known, name)
			f.changed = true
		}
	}
}

// isOurs excludes temporary files of editors and mounts.
func isOurs(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func sameStamp(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// read reads one file and replaces its content if the text is valid.
func (f *files[T]) read(k *file[T], info fs.FileInfo) {
	if info.Size() > maxFileSize {
		f.fail(k, fmt.Errorf("is larger than %d MiB: split it", maxFileSize>>20))
		k.info = info
		return
	}
	text, err := os.ReadFile(filepath.Join(f.dir, k.Name))
	if err != nil {
		f.fail(k, err)
		return
	}
	k.info = info
	digest := sha256.Sum256(text)
	if digest == k.digest {
		return
	}
	k.digest = digest
	content, err := f.parse(k.Name, text)
	if err != nil {
		f.setErr(k, err)
		return
	}
	if k.Err != nil {
		f.log.Info("File is valid again", "file", k.Name)
	}
	k.Content, k.Usable, k.Err = content, true, nil
	f.changed = true
}

func (f *files[T]) fail(k *file[T], err error) {
	k.info, k.digest = nil, [sha256.Size]byte{}
	f.setErr(k, err)
}

// setErr logs new errors only.
func (f *files[T]) setErr(k *file[T], err error) {
	if sameText(err, k.Err) {
		return
	}
	what := "File has errors and is not used"
	if k.Usable {
		what = "File has errors; its previous content stays in force"
	}
	f.log.Error(what, "file", k.Name, "error", err)
	k.Err = err
	f.changed = true
}

func sameText(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error()
}
