package configdir

import (
	"net/http"
	"slices"

	"github.com/contiv/contiv/rest"
)

// URL is the path that Handler is meant for.
const URL = "/contiv/v1/config-dir"

// Status of the directory.
type Status struct {
	Dir string
	// Err is why the directory cannot be read now: what was read before counts.
	Err string `json:",omitempty"`
	// Files sorted by name.
	Files []FileStatus
}

// Which text of a file counts.
const (
	Present = "present text"
	Earlier = "earlier text"
	Nothing = "nothing"
)

// FileStatus is what became of a file.
type FileStatus struct {
	Name string
	// Values is how many values the file has, in the text that counts: Of is
	// Present, Earlier or Nothing.
	Values int
	Of     string
	// Err is what is wrong with the present text.
	Err string `json:",omitempty"`
	// Overrides are the values that count instead of those of files before it.
	Overrides []Override `json:",omitempty"`
}

// Override is a value that is in two files.
type Override struct {
	Key string
	// File is the one whose value does not count.
	File string
}

// Status of the directory now.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Handler serves GET /contiv/v1/config-dir: the Status.
func (s *Source) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, s.Status()) })
}

// warnOfOverrides logs what is new. Call it with mu held.
func (s *Source) warnOfOverrides(next Status) {
	known := s.status.Files
	for _, file := range next.Files {
		var before []Override
		if i := slices.IndexFunc(known, func(f FileStatus) bool { return f.Name == file.Name }); i >= 0 {
			before = known[i].Overrides
		}
		for _, o := range file.Overrides {
			if !slices.Contains(before, o) {
				s.log.Warn("Two files have a value of the same key: that of the last one counts", "key", o.Key, "file", file.Name, "instead of", o.File)
			}
		}
	}
}
