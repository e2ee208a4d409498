package ctl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/models/manifest"
	"google.golang.org/protobuf/proto"
)

// files with values, given by -f.
type files []string

// parsed is the values of files, in their order, and where each of them comes from.
type parsed struct {
	values []manifest.Value
	origin map[string]string // "file, line 3"
}

func (p *parsed) messages() (messages []proto.Message) {
	for _, v := range p.values {
		messages = append(messages, v.Message)
	}
	return messages
}

func (p *parsed) keys() (keys []string) {
	for _, v := range p.values {
		keys = append(keys, v.Key)
	}
	return keys
}

// read reads all files; of directories, those with YAML and JSON in it; of "-", the
// standard input. The error tells all that is wrong with all of them.
func (f files) read(stdin io.Reader) (*parsed, error) {
	if len(f) == 0 {
		return nil, errors.New("-f FILE is missing: it holds the values, a directory holds such files, \"-\" is the standard input")
	}
	all := &parsed{origin: make(map[string]string)}
	var mistakes []error
	for _, name := range f {
		paths, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			mistakes = append(mistakes, all.add(path, stdin))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	return all, nil
}

func filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("values cannot be read: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries { // sorted by name
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			paths = append(paths, filepath.Join(name, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("directory %s has no files named *.yaml, *.yml or *.json", name)
	}
	return paths, nil
}

func (p *parsed) add(path string, stdin io.Reader) error {
	var data []byte
	var err error
	if path == "-" {
		path = "standard input"
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return fmt.Errorf("values cannot be read: %w", err)
	}
	values, err := manifest.Parse(data)
	if err != nil {
		var lines []string
		for line := range strings.SplitSeq(place.ReplaceAllString(err.Error(), ""), "\n") {
			lines = append(lines, path+": "+line)
		}
		return errors.New(strings.Join(lines, "\n"))
	}
	var mistakes []error
	for _, v := range values {
		if first, twice := p.origin[v.Key]; twice {
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: there is a value of %s in %s already: keep one of them", path, v.Line, v.Key, first))
			continue
		}
		p.origin[v.Key] = fmt.Sprintf("%s, line %d,", path, v.Line)
		p.values = append(p.values, v)
	}
	return errors.Join(mistakes...)
}
