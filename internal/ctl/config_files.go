package ctl

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	serviceconfig "github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	"github.com/contiv/contiv/models/manifest"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

func (c *cli) checkConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check-config FILE...",
		Short: "Check configuration files offline",
		Long: "Check configuration files before use: contiv.conf, controller.conf, service.conf, etcd.conf and\n" +
			"vpp.conf by these names, value files for \"config apply\" by any other name, and directories of both.\n" +
			"In values, it checks keys, models, and the names and types of fields.\n\n" +
			"To validate values fully, and contiv.conf against a node's interfaces, run \"contiv-agent check-config\"\n" +
			"on the node. To see the effect of values on a node, run \"contivctl config apply --dry-run\".\n\n" +
			"The exit code is 1 if a file has mistakes.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			for _, name := range withoutDirectories(args) {
				what, err := checkConfig(name, cmd.InOrStdin())
				if err != nil {
					for line := range strings.SplitSeq(err.Error(), "\n") {
						fmt.Fprintf(c.errOut, "%s: %s\n", c.name, line)
					}
					failed = ErrReported
					continue
				}
				c.printer().Printf("%s: %s\n", name, what)
				for _, remark := range remarksOn(name) {
					c.printer().Printf("%s: warning: %s\n", name, remark)
				}
			}
			return failed
		},
	}
}

// configFiles maps the names of the agent's and contiv-init's files to their checks.
var configFiles = map[string]struct {
	what  string
	check func(path string) error
}{
	"contiv.conf":     {"network configuration", contivconf.CheckFile},
	"controller.conf": {"event loop configuration", func(path string) error { return controller.CheckFile(path, nil) }},
	"service.conf":    {"services configuration", serviceconfig.CheckFile},
	"etcd.conf":       {"how to reach etcd", func(path string) error { return etcd.CheckFile(path, etcd.Config{}, "") }},
	"vpp.conf":        {"options of VPP", checkVPPConf},
}

// checkVPPConf returns the machine-independent mistakes in the file of VPP's options.
func checkVPPConf(path string) error {
	c := startup.New("/run/vpp", startup.Machine{})
	return config.Examine(path, &c, func() error { return c.Check(startup.Machine{}) })
}

// agentHTTP is the agents' default HTTP address.
const agentHTTP = "127.0.0.1:9999"

// remarksOn returns warnings about a file without mistakes.
func remarksOn(path string) []string {
	switch filepath.Base(path) {
	case "contiv.conf":
		if conf, err := contivconf.LoadFile(path); err == nil {
			return conf.Remarks()
		}
	case "service.conf":
		if conf, err := serviceconfig.LoadFile(path); err == nil {
			return conf.Remarks(agentHTTP)
		}
	case "etcd.conf":
		return etcd.Remarks(path)
	}
	return nil
}

// withoutDirectories replaces directories by their files that can be checked or have similar names.
func withoutDirectories(names []string) (all []string) {
	for _, name := range names {
		entries, err := os.ReadDir(name)
		if err != nil { // no directory
			all = append(all, name)
			continue
		}
		before := len(all)
		for _, e := range entries {
			if _, meant := config.Nearest(e.Name(), slices.Collect(maps.Keys(configFiles))); !e.IsDir() && (meant || isValuesFile(e.Name())) {
				all = append(all, filepath.Join(name, e.Name()))
			}
		}
		if len(all) == before {
			all = append(all, name) // reading it is an error
		}
	}
	return all
}

// checkConfig returns a summary of a file, or its mistakes.
func checkConfig(path string, stdin io.Reader) (what string, err error) {
	name := filepath.Base(path)
	if file, known := configFiles[name]; known {
		return file.what + ", no errors found", file.check(path)
	}
	if meant, ok := config.Nearest(name, slices.Sorted(maps.Keys(configFiles))); ok && !isValuesFile(name) {
		return "", fmt.Errorf("%s: agents do not read files of this name: did you mean %s?", path, meant)
	}
	values, err := files{path}.read(stdin)
	switch {
	case err != nil:
		return "", err
	case len(values.values) == 0:
		return "empty: it contains no value", nil
	}
	return count(len(values.values), "value") + ", well-formed; `contiv-agent check-config --config-dir DIR` validates them, `contivctl config apply --dry-run` shows the effect on a node", nil
}

// isValuesFile reports whether a file in a directory contains values.
func isValuesFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// files are the arguments of -f.
type files []string

// parsed holds the values of files in order, with their positions.
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

// read reads all files. A directory stands for its YAML and JSON files, "-" for standard input. The
// error lists the mistakes of all files.
func (f files) read(stdin io.Reader) (*parsed, error) {
	if len(f) == 0 {
		return nil, Misused(errors.New("-f is missing: use a file with values, a directory of such files, or \"-\" for standard input"))
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
		if !e.IsDir() && isValuesFile(e.Name()) {
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
			mistakes = append(mistakes, fmt.Errorf("%s: line %d: duplicate value of %s, also in %s: keep one of them", path, v.Line, v.Key, first))
			continue
		}
		p.origin[v.Key] = fmt.Sprintf("%s, line %d", path, v.Line)
		p.values = append(p.values, v)
	}
	return errors.Join(mistakes...)
}
