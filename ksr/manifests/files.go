package manifests

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/ksr"
)

// maxFileSize bounds what is read of a file.
const maxFileSize = 64 << 20

// files are the manifests as of the last scan.
type files struct {
	dir string
	log *slog.Logger
	// known by name.
	known map[string]*file
	// reported are the objects as last reported.
	reported map[ksr.Ref]ksr.Object
	complete bool
	scanned  bool
	// broken is why the directory cannot be read.
	broken string
	// duplicates found in the last merge.
	duplicates []Problem
	// namedKinds are the ignored kinds that have been logged.
	namedKinds map[string]bool
}

// file is one manifest.
type file struct {
	// info of the content that was last read, nil if it is to be read.
	info fs.FileInfo
	// digest of the content that was last parsed, to tell touching from
	// changing.
	digest [sha256.Size]byte
	// objects of the last content without mistakes; usable: there was such a
	// content.
	objects []located
	usable  bool
	// errors and warnings of the last content.
	errors, warnings []Problem
}

func newFiles(dir string, log *slog.Logger) *files {
	return &files{
		dir: dir, log: log, known: make(map[string]*file), reported: make(map[ksr.Ref]ksr.Object), namedKinds: make(map[string]bool),
	}
}

// forget makes the next scan read all files.
func (f *files) forget() {
	for _, k := range f.known {
		k.info = nil
	}
}

// scan reads the files that changed, those named in touched in any case, and
// returns what is to be reported; changed is false if that is nothing.
func (f *files) scan(touched map[string]bool) (changes ksr.Changes, changed bool) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		if f.broken != err.Error() {
			f.broken = err.Error()
			f.log.Error("directory of manifests cannot be read: its objects are kept", "error", err)
		}
		if f.scanned {
			return ksr.Changes{}, false
		}
	} else {
		f.broken = ""
		f.readAll(entries, touched)
	}
	merged := f.merge()
	changes.Complete = f.isComplete()
	for ref, object := range merged {
		if f.reported[ref] != object {
			changes.Set = append(changes.Set, object)
		}
	}
	for ref := range f.reported {
		if merged[ref] == nil {
			changes.Deleted = append(changes.Deleted, ref)
		}
	}
	changed = !f.scanned || changes.Complete != f.complete || len(changes.Set)+len(changes.Deleted) > 0
	f.reported, f.complete, f.scanned = merged, changes.Complete, true
	return changes, changed
}

// isComplete tells if all that the files mean is known.
func (f *files) isComplete() bool {
	if f.broken != "" {
		return false
	}
	for _, k := range f.known {
		if !k.usable {
			return false
		}
	}
	return true
}

func (f *files) readAll(entries []fs.DirEntry, touched map[string]bool) {
	present := make(map[string]bool)
	for _, e := range entries {
		name := e.Name()
		if !isManifest(name) {
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
			k = &file{}
			f.known[name] = k
		}
		switch {
		case err != nil:
			f.fail(k, name, err)
		case touched[name] || k.info == nil || !sameStamp(info, k.info):
			f.read(name, k, info)
		}
	}
	for name := range f.known {
		if !present[name] {
			delete(f.known, name)
		}
	}
}

// isManifest tells a manifest by its name from what editors and mounts leave
// behind.
func isManifest(name string) bool {
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

// read reads one file and takes its objects, if all of it can be understood.
func (f *files) read(name string, k *file, info fs.FileInfo) {
	if info.Size() > maxFileSize {
		f.fail(k, name, fmt.Errorf("is larger than %d MiB: split it", maxFileSize>>20))
		k.info = info
		return
	}
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.fail(k, name, err)
		return
	}
	k.info = info
	digest := sha256.Sum256(data)
	if digest == k.digest {
		return
	}
	k.digest = digest
	p := parse(name, data)
	for _, kind := range p.ignored {
		if !f.namedKinds[kind] {
			f.namedKinds[kind] = true
			f.log.Info("objects of this kind are not reflected", "kind", kind, "file", name)
		}
	}
	k.warnings = p.warnings
	if len(p.errors) > 0 {
		f.setErrors(k, p.errors)
		return
	}
	for _, w := range p.warnings {
		f.log.Warn("manifest: " + w.String())
	}
	if len(k.errors) > 0 {
		f.log.Info("manifest is in order again", "file", name)
	}
	k.objects, k.errors, k.usable = p.objects, nil, true
}

func (f *files) fail(k *file, name string, err error) {
	k.info, k.digest = nil, [sha256.Size]byte{}
	f.setErrors(k, []Problem{{File: name, Reason: err.Error()}})
}

// setErrors logs what is new of the errors.
func (f *files) setErrors(k *file, errs []Problem) {
	what := "manifest is not used"
	if k.usable {
		what = "manifest has mistakes: its former objects are kept"
	}
	for _, e := range errs {
		if !slices.Contains(k.errors, e) {
			f.log.Error(what, "file", e.File, "document", e.Document, "reason", e.Reason)
		}
	}
	k.errors = errs
}

// merge puts the objects of all files together. Of objects with the same
// identity the last one counts, as if the files were applied in the order of
// their names.
func (f *files) merge() map[ksr.Ref]ksr.Object {
	merged := make(map[ksr.Ref]ksr.Object)
	origin := make(map[ksr.Ref]Problem)
	var duplicates []Problem
	for _, name := range slices.Sorted(maps.Keys(f.known)) {
		for _, o := range f.known[name].objects {
			ref, _ := ksr.RefOf(o.object)
			if other, twice := origin[ref]; twice {
				duplicates = append(duplicates, Problem{other.File, other.Document,
					fmt.Sprintf("%s is overridden by document %d of %s: remove one of them", ref, o.document, name)})
			}
			merged[ref] = o.object
			origin[ref] = Problem{File: name, Document: o.document}
		}
	}
	for _, d := range duplicates {
		if !slices.Contains(f.duplicates, d) {
			f.log.Warn("manifest: " + d.String())
		}
	}
	f.duplicates = duplicates
	return merged
}

// problems returns all that is wrong, sorted by file.
func (f *files) problems() []Problem {
	out := slices.Clone(f.duplicates)
	if f.broken != "" {
		out = append(out, Problem{Reason: f.broken})
	}
	for _, k := range f.known {
		out = append(out, k.errors...)
		out = append(out, k.warnings...)
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Document, b.Document))
	})
	return out
}
