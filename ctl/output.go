package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/ctl/text"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format of the output.
type format string

const (
	asTable   format = "table"
	asJSON    format = "json"
	asYAML    format = "yaml"
	asDiagram format = "diagram"
	asDOT     format = "dot"
	asSVG     format = "svg"
)

// Set makes format a flag. Which formats there are depends on the command: see
// checkFormat.
func (f *format) Set(s string) error {
	*f = format(s)
	return nil
}

// formatsAnnotation lists the formats of a command, if they are not the usual ones.
const formatsAnnotation = "formats"

// withFormats says which formats a command knows; the first one is its default.
func withFormats(cmd *cobra.Command, formats ...format) *cobra.Command {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	cmd.Annotations = map[string]string{formatsAnnotation: strings.Join(names, ",")}
	return cmd
}

// formatsOf returns the formats that a command knows, its default first.
func formatsOf(cmd *cobra.Command) []string {
	if own := cmd.Annotations[formatsAnnotation]; own != "" {
		return strings.Split(own, ",")
	}
	return []string{string(asTable), string(asJSON), string(asYAML)}
}

// checkFormat reports whether the command knows the format that was asked for, and takes
// its default if none was.
func (c *cli) checkFormat(cmd *cobra.Command) error {
	names := formatsOf(cmd)
	if !cmd.Flags().Changed("output") {
		c.format = format(names[0])
		return nil
	}
	if slices.Contains(names, string(c.format)) {
		return nil
	}
	return text.Hinted(fmt.Errorf("output format %q is not known to %q", c.format, cmd.CommandPath()), string(c.format), names)
}

func (f *format) String() string { return string(*f) }

// Type is shown by --help.
func (f *format) Type() string { return "FORMAT" }

// encode writes a value for programs.
func (f format) encode(w io.Writer, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	data = append(data, '\n')
	if f == asYAML {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
	}
	_, err = w.Write(data)
	return err
}

// NodeResult is the form of an agent's answer in JSON and YAML: commands that ask
// several agents print a list of them.
type NodeResult struct {
	Node   string `json:"node"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// printer writes to the output.
func (c *cli) printer() printer { return printer{Writer: c.out, Full: c.full, Width: c.width} }

// What commands are written in terms of.
type (
	printer       = text.Printer
	Agent         = target.Agent
	answer[T any] = target.Answer[T]
)

// show prints answers: as JSON or YAML a list of NodeResult, else what table
// makes of those that are no errors. Errors are reported in any case, and make
// show return ErrReported.
func show[T any](c *cli, answers []answer[T], table func(p printer, good []answer[T])) error {
	var good []answer[T]
	results := make([]NodeResult, len(answers))
	for i, a := range answers {
		results[i].Node = a.Agent.Name
		if a.Err != nil {
			results[i].Error = a.Err.Error()
			continue
		}
		results[i].Result = a.Value
		good = append(good, a)
	}
	if c.format != asTable {
		if err := c.format.encode(c.out, results); err != nil {
			return err
		}
	} else if len(good) > 0 {
		table(c.printer(), good)
	}
	return reportErrors(c, answers)
}

// reportErrors tells which agents did not answer; if any, ErrReported is
// returned.
func reportErrors[T any](c *cli, answers []answer[T]) error {
	var failed error
	for _, a := range answers {
		if a.Err != nil {
			c.report(a.Agent, a.Err)
			failed = ErrReported
		}
	}
	return failed
}

// report writes an agent's error for people.
func (c *cli) report(a *Agent, err error) { fmt.Fprintf(c.errOut, "%s: %s: %v\n", c.name, a.Name, err) }
