package ctl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/config"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/models/manifest"
	"github.com/contiv/contiv/plugins/contivconf"
	serviceconfig "github.com/contiv/contiv/plugins/service/config"
	"github.com/contiv/contiv/store/etcd"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

func (c *cli) checkConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE...",
		Short: "Look for mistakes in files of configuration, without asking an agent",
		Long: "Looks for mistakes in files before they are used: contiv.conf, controller.conf, service.conf and etcd.conf, by these names,\n" +
			"and files with values as \"config apply\" reads them, under any other, also directories of them. Of values, it checks keys,\n" +
			"models, and the names and types of fields. Whether they are valid, \"contiv-agent check-config --config-dir DIR\" says\n" +
			"without a node; what a node would do with them, \"config apply --dry-run\". The exit code is 1 if there are mistakes.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			for _, name := range args {
				what, err := checkConfig(name, cmd.InOrStdin())
				if err != nil {
					for line := range strings.SplitSeq(err.Error(), "\n") {
						fmt.Fprintf(c.errOut, "%s: %s\n", c.name, line)
					}
					failed = ErrReported
					continue
				}
				c.printer().Printf("%s: %s\n", name, what)
			}
			return failed
		},
	}
}

// checkConfig returns what was found of a file, or its mistakes.
func checkConfig(name string, stdin io.Reader) (what string, err error) {
	switch filepath.Base(name) {
	case "contiv.conf":
		c, err := contivconf.LoadFile(name)
		if err == nil {
			if err = c.Check(); err != nil {
				err = fmt.Errorf("configuration file %s: %w", name, err)
			}
		}
		return "network configuration, no mistakes", err
	case "controller.conf":
		c, err := controller.LoadConfigFile(name)
		if err == nil {
			err = c.Validate()
		}
		return "event loop configuration, no mistakes", err
	case "service.conf":
		_, err = serviceconfig.LoadFile(name)
		return "services configuration, no mistakes", err
	case "etcd.conf":
		var e etcd.Config
		if err = config.LoadFile(name, &e); err == nil {
			if err = e.Check(); err != nil {
				err = fmt.Errorf("configuration file %s: %w", name, err)
			}
		}
		return "how to reach etcd, no mistakes", err
	}
	values, err := files{name}.read(stdin)
	if err != nil {
		return "", err
	}
	return count(len(values.values), "value") + ", well-formed; `contiv-agent check-config --config-dir DIR` says whether they are valid, `contivctl config apply --dry-run` what a node would do", nil
}

// files are the arguments of -f: files with values.
type files []string

// parsed has the values of files, in their order, and the place where each was found.
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

// read reads all files: of a directory, the YAML and JSON files in it; for "-", the standard input.
// The error lists the mistakes of all files.
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
