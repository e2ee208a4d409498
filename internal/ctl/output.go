package ctl

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/ctl/flags"
	"github.com/contiv/contiv/internal/ctl/jsonpath"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/lib/jsontext"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// format is an output format.
type format string

const (
	asTable    format = "table"
	asWide     format = "wide" // a table with all columns and nothing shortened
	asJSON     format = "json"
	asYAML     format = "yaml"
	asJSONPath format = "jsonpath" // with "=TEMPLATE"
	asName     format = "name"
	asDiagram  format = "diagram"
	asDOT      format = "dot"
	asSVG      format = "svg"
)

// allFormats lists the formats of all commands.
var allFormats = []format{asTable, asWide, asJSON, asYAML, asJSONPath, asName, asDiagram, asDOT, asSVG}

// Set implements pflag.Value. The formats depend on the command; see checkFormat.
func (f *format) Set(s string) error {
	*f = format(s)
	return nil
}

// usual annotation key of a command's formats, if they differ from the default.
const formatsAnnotation = "formats"

// withFormats sets a command's formats; the first is the default.
func withFormats(cmd *cobra.Command, formats ...format) *cobra.Command {
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	cmd.Annotations = map[string]string{formatsAnnotation: strings.Join(names, ",")}
	return cmd
}

// listing sets the formats of a command that lists named objects.
func listing(cmd *cobra.Command) *cobra.Command {
	return withFormats(cmd, asTable, asWide, asJSON, asYAML, asJSONPath, asName)
}

// formatsOf returns a command's formats, the default first.
func formatsOf(cmd *cobra.Command) []string {
	if own := cmd.Annotations[formatsAnnotation]; own != "" {
		return strings.Split(own, ",")
	}
	return []string{string(asTable), string(asWide), string(asJSON), string(asYAML), string(asJSONPath)}
}

// checkFormat returns an error if the command does not support the requested format. Without a
// request, it selects the default.
func (c *cli) checkFormat(cmd *cobra.Command) error {
	names := formatsOf(cmd)
	if !flags.Honoured(cmd, "output") || !cmd.Flags().Changed("output") {
		c.format = format(names[0])
		return nil
	}
	kind, template, _ := strings.Cut(string(c.format), "=")
	switch known := slices.Contains(names, kind); {
	case known && format(kind) == asJSONPath:
		_, _, err := jsonpath.Parse(template)
		return err
	case known && template == "" && format(kind) == asWide:
		c.format, c.full, c.wide = asTable, true, true
		return nil
	case known && template == "":
		return nil
	}
	wrong := fmt.Errorf("output format %q is not supported by %q", c.format, cmd.CommandPath())
	if slices.Contains(allFormats, format(kind)) { // no slip: other commands know it
		return fmt.Errorf("%w: use one of %s", wrong, strings.Join(names, ", "))
	}
	return text.Hinted(wrong, string(c.format), names)
}

func (f *format) String() string { return string(*f) }

func (f *format) Type() string { return "FORMAT" }

// checkFollowed refuses formats that cannot show records one by one.
func (c *cli) checkFollowed() error {
	if slices.Contains([]format{asTable, asJSON, asYAML}, c.format) {
		return nil
	}
	return Misused(fmt.Errorf("-f does not support -o %s: use table, wide, json or yaml", c.format))
}

// encode writes a value in a format for programs.
func (f format) encode(w io.Writer, value any) error {
	data, err := appendJSON(nil, value)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	data = append(jsontext.AppendIndented(make([]byte, 0, 2*len(data)), data, camelCase), '\n')
	kind, template, _ := strings.Cut(string(f), "=")
	switch format(kind) {
	case asYAML:
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
	case asJSONPath:
		if data, err = jsonpath.Extract(data, template); err != nil {
			return Misused(err)
		}
	}
	_, err = w.Write(data)
	return err
}

// appendJSON appends the JSON of a value. Unlike encoding/json, it does not scan long lists again.
func appendJSON(b []byte, value any) (_ []byte, err error) {
	switch v := value.(type) {
	case []NodeResult:
		b = append(b, '[')
		for i, r := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = r.appendJSON(b); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	case record.Dump:
		return v.AppendJSON(b), nil
	case record.Statuses:
		return v.AppendJSON(b), nil
	case record.Values:
		return v.AppendJSON(b), nil
	case record.Diffs:
		return v.AppendJSON(b), nil
	}
	return jsontext.AppendAny(b, value)
}

func (r NodeResult) appendJSON(b []byte) (_ []byte, err error) {
	b = jsontext.AppendString(append(b, `{"node":`...), r.Node)
	if r.Result != nil {
		if b, err = appendJSON(append(b, `,"result":`...), r.Result); err != nil {
			return b, err
		}
	}
	if r.Error != "" {
		b = jsontext.AppendString(append(b, `,"error":`...), r.Error)
	}
	return append(b, '}'), nil
}

// camelCase lowers the first letter of a field name in place, as in Kubernetes. Fields of
// northbound values stay as in etcd.
func camelCase(name []byte) {
	for _, c := range name {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return
		}
	}
	if len(name) > 0 && 'A' <= name[0] && name[0] <= 'Z' {
		lowerFirstWord(name)
	}
}

// lowerFirstWord changes a Go field name in place: IPAddress becomes ipAddress, IPs ips, and NOOP
// noop. Other names in capitals are states and stay.
func lowerFirstWord(name []byte) {
	capitals := 0
	for capitals < len(name) && 'A' <= name[capitals] && name[capitals] <= 'Z' {
		capitals++
	}
	switch {
	case capitals == len(name) && string(name) != "NOOP":
		return
	case 1 < capitals && capitals < len(name) && name[capitals] != 's':
		capitals-- // the last capital letter begins the next word
	}
	for i := range capitals {
		name[i] += 'a' - 'A'
	}
}

// NodeResult is an agent's answer in JSON and YAML. Commands print a list of them for several
// agents.
type NodeResult struct {
	Node   string `json:"node"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// printer writes to the output.
func (c *cli) printer() printer {
	p := printer{Writer: c.out, Full: c.full, Wide: c.wide, Colour: c.colour, Width: c.width, Terminal: c.fit}
	if c.wide {
		p.Width = text.Unlimited
	}
	return p
}

// Types and functions used by all commands.
type (
	printer       = text.Printer
	Agent         = target.Agent
	answer[T any] = target.Answer[T]
)

// show prints answers: as a list of NodeResult in JSON or YAML, otherwise by table. It reports
// errors in any format and then returns ErrReported.
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
	switch {
	case c.format == asName:
		for _, a := range good {
			c.writeNames(namesOf(a.Agent.Name, a.Value))
		}
	case c.format != asTable:
		if err := c.format.encode(c.out, results); err != nil {
			return err
		}
	case len(good) > 0:
		table(c.printer(), good)
	}
	if err := lacking(answers); err != nil {
		return err
	}
	return reportErrors(c, answers)
}

// lacking returns the "not found" answer if all agents give it; nil if one has the name or does not
// answer.
func lacking[T any](answers []answer[T]) error {
	if len(answers) == 0 || slices.ContainsFunc(answers, func(a answer[T]) bool { return !target.IsNotFound(a.Err) }) {
		return nil
	}
	first := answers[0]
	if len(answers) == 1 {
		return fmt.Errorf("%s: %w", first.Agent.Name, first.Err)
	}
	return first.Err
}

// reportErrors prints the agents that did not answer, and returns ErrReported if any.
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

// report prints an agent's error.
func (c *cli) report(a *Agent, err error) { fmt.Fprintf(c.errOut, "%s: %s: %v\n", c.name, a.Name, err) }

// namesOf returns the names in an agent's answer in the form that other commands accept: keys,
// pods, sequence numbers. For an answer about a whole node, it is the node's name.
func namesOf(node string, answered any) (names []string) {
	switch list := answered.(type) {
	case ipnet.PodsReport:
		for _, p := range list.Pods {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	case ifstate.Report:
		for _, data := range list.Interfaces {
			var s vpp_interfaces.InterfaceState
			if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &s) == nil {
				names = append(names, s.GetName())
			}
		}
	case service.Report:
		for _, s := range list.Services {
			names = append(names, s.Namespace+"/"+s.Name)
		}
	case policy.Report:
		for _, p := range list.Policies {
			names = append(names, p.ID())
		}
	case eventList:
		for _, e := range list.events {
			names = append(names, list.runs.seq(e.Run, e.SeqNum))
		}
	case txnList:
		for _, t := range list.txns {
			names = append(names, list.runs.seq(t.run, t.SeqNum))
		}
	case record.Statuses:
		for _, s := range list {
			names = append(names, s.Keys()...)
		}
	case record.Dump:
		for _, v := range list {
			names = append(names, v.Key)
		}
	case record.Diffs:
		for _, d := range list {
			names = append(names, d.Key)
		}
	case statscollector.DropsReport:
		for _, d := range list.Drops {
			names = append(names, d.Interface)
		}
	default:
		names = []string{node}
	}
	return names
}

// writeNames prints each name once, one per line: services and policies are the same on all nodes.
func (c *cli) writeNames(names []string) {
	for _, name := range slices.Compact(names) {
		fmt.Fprintln(c.out, name)
	}
}

func idText(id uint32) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(id), 10)
}
