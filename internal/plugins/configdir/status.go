package configdir

import (
	"net/http"
	"slices"

	"github.com/contiv/contiv/internal/lib/rest"
)

// URL is the handler's path.
const URL = "/contiv/v1/config-dir"

// Status of the directory.
type Status struct {
	Dir string
	// Err is why the directory cannot be read; the values read before stay in force.
	Err string `json:",omitempty"`
	// Files sorted by name.
	Files []FileStatus
}

const (
	Present = "present text"
	Earlier = "earlier text"
	Nothing = "nothing"
)

// FileStatus is the status of a file.
type FileStatus struct {
	Name string
	// Values is the number of values in the text in force. Of is Present, Earlier or Nothing.
	Values int
	Of     string
	// Err is the mistake in the present text.
	Err string `json:",omitempty"`
	// Overrides lists the values that override earlier files.
	Overrides []Override `json:",omitempty"`
}

// Override is a value that two files contain.
type Override struct {
	Key string
	// File is the file with the overridden value.
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

// warnOfOverrides logs new overrides. The caller holds mu.
func (s *Source) warnOfOverrides(next Status) {
	known := s.status.Files
	for _, file := range next.Files {
		var before []Override
		if i := slices.IndexFunc(known, func(f FileStatus) bool { return f.Name == file.Name }); i >= 0 {
			before = known[i].Overrides
		}
		for _, o := range file.Overrides {
			if !slices.Contains(before, o) {
				s.log.Warn("Duplicate key in two files; the last file wins", "key", o.Key, "file", file.Name, "instead of", o.File)
			}
		}
	}
}
