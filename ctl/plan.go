package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/contiv/config"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"
)

const planPath = "/scheduler/plan"

func (c *cli) planCommand() *cobra.Command {
	var file string
	var whole bool
	cmd := &cobra.Command{
		Use:   "plan -f FILE [NODE]",
		Short: "What a change of values would do, without doing it",
		Long: "Asks a node which operations it would execute if the values in the file were requested.\n" +
			"Nothing is changed. The file maps keys to values, null stands for the removal of a value:\n\n" +
			"  config/vpp/v2/interfaces/loop1:\n" +
			"    name: loop1\n" +
			"    type: SOFTWARE_LOOPBACK\n" +
			"    ip_addresses: [10.9.9.9/32]\n" +
			"  config/vpp/v2/route/vrf/0/dst/10.8.0.0/16/: null\n\n" +
			"The part \"Values\" of what txns SEQ -o json prints is understood as well.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if file == "" {
				return errors.New("-f FILE is missing: it holds the values, \"-\" is the standard input")
			}
			request, err := readPlan(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if whole {
				request.ResyncType = "FullResync"
			}
			agents, err := c.targets.selected(ctx, args)
			if err != nil {
				return err
			}
			if len(agents) > 1 {
				return fmt.Errorf("nodes have different values: name one of %s", strings.Join(names(agents), ", "))
			}
			return c.showPlan(ctx, agents[0], request)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with values in YAML or JSON, - for the standard input")
	cmd.Flags().BoolVar(&whole, "whole", false, "the file holds all values of the node: what is not in it is removed")
	return cmd
}

func (c *cli) showPlan(ctx context.Context, agent *Agent, request kvscheduler.PlanRequest) error {
	answers := ask(ctx, []*Agent{agent}, func(ctx context.Context, a *Agent) (reply kvscheduler.PlanReply, err error) {
		err = a.post(ctx, planPath, nil, request, &reply)
		return reply, err
	})
	if err := show(c, answers, writePlan); err != nil {
		return err
	}
	if answers[0].value.Error != "" {
		return ErrReported
	}
	return nil
}

func writePlan(p printer, good []answer[kvscheduler.PlanReply]) {
	reply := good[0].value
	if len(reply.Planned) == 0 && reply.Error == "" {
		p.printf("%s has it like this already: no operation\n", good[0].agent.Name)
		return
	}
	if len(reply.Planned) > 0 {
		p.writeOperations(reply.Planned, nil)
	}
	switch told := slices.ContainsFunc(reply.Planned, func(op kvscheduler.RecordedOp) bool { return op.NewErr != nil }); {
	case told:
		p.printf("Not all of this can be done: see the errors.\n")
	case reply.Error != "":
		p.printf("Not all of this can be done: %s\n", reply.Error)
	}
}

// readPlan reads the values of a file and checks what can be checked without an
// agent.
func readPlan(file string, stdin io.Reader) (request kvscheduler.PlanRequest, err error) {
	name, data := file, []byte(nil)
	if file == "-" {
		name = "standard input"
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return request, fmt.Errorf("values cannot be read: %w", err)
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return request, fmt.Errorf("%s: %w", name, err)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "null" || string(text) == "{}" || string(text) == "[]" {
		return request, fmt.Errorf("%s holds no values: see --help for its form", name)
	}
	switch text[0] {
	case '[':
		err = json.Unmarshal(text, &request.Values)
	case '{':
		request.Values, err = readValues(text)
	default:
		err = errors.New("keys with values are expected: see --help for the form")
	}
	if err != nil {
		return request, fmt.Errorf("%s: %w", name, err)
	}
	for i, kv := range request.Values {
		if kv.Key == "" {
			return request, fmt.Errorf("%s: value %d has no key", name, i+1)
		}
	}
	return request, nil
}

// nodePrefix is what precedes keys in etcd.
var nodePrefix = regexp.MustCompile(`^/vnf-agent/[^/]+/`)

// readValues reads an object whose members are values by key.
func readValues(text []byte) ([]kvscheduler.KeyValue, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	var values []kvscheduler.KeyValue
	var mistakes []error
	for _, key := range slices.Sorted(maps.Keys(members)) {
		kv := kvscheduler.KeyValue{Key: nodePrefix.ReplaceAllString(key, "")}
		var err error
		if _, ok := models.ForKey(kv.Key); !ok {
			err = unknownModel(kv.Key)
		} else if string(members[key]) != "null" {
			kv.Value, err = models.Unmarshal(kv.Key, members[key])
			err = hintedField(withoutPlace(err), kv.Key)
		}
		if err != nil {
			mistakes = append(mistakes, err)
		}
		values = append(values, kv)
	}
	return values, errors.Join(mistakes...)
}

// unknownModel is the error for a key that belongs to no kind of values.
func unknownModel(key string) error {
	err := fmt.Errorf("key %q belongs to no kind of values", key)
	best, similar := "", 0
	for _, m := range models.All() {
		prefix := m.KeyPrefix()
		start := key[:min(len(key), len(prefix))]
		if nearest, ok := config.Nearest(start, []string{prefix}); ok && common(key, nearest) > similar {
			best, similar = prefix, common(key, nearest)
		}
	}
	if best == "" {
		return fmt.Errorf("%w: `contivctl models` lists them", err)
	}
	return fmt.Errorf("%w: did you mean one that begins with %q?", err, best)
}

// common is the length of what two texts begin with.
func common(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// place is where JSON is wrong; nobody has seen the JSON that YAML was turned into.
// The space behind "proto:" may be any kind of space.
var place = regexp.MustCompile(`proto:[\s\x{a0}]*(?:syntax error )?\(line \d+:\d+\):[\s\x{a0}]*`)

func withoutPlace(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(place.ReplaceAllString(err.Error(), ""))
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
	wrongEnum    = regexp.MustCompile(`invalid value for enum field \w+: "([^"]+)"`)
)

// hintedField completes an error about a field, or a name as its value, that does
// not exist by one that does, anywhere in values of that kind.
func hintedField(err error, key string) error {
	m, ok := models.ForKey(key)
	if err == nil || !ok {
		return err
	}
	fields, enums := make(map[string]bool), make(map[string]bool)
	collectNames(m.New().ProtoReflect().Descriptor(), fields, enums, make(map[protoreflect.FullName]bool))
	if found := unknownField.FindStringSubmatch(err.Error()); found != nil {
		return hinted(err, found[1], slices.Sorted(maps.Keys(fields)))
	}
	if found := wrongEnum.FindStringSubmatch(err.Error()); found != nil {
		return hinted(err, found[1], slices.Sorted(maps.Keys(enums)))
	}
	return err
}

// collectNames collects the names of the fields of messages, and of values of
// enumerations.
func collectNames(m protoreflect.MessageDescriptor, fields, enums map[string]bool, seen map[protoreflect.FullName]bool) {
	if seen[m.FullName()] {
		return
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		fields[string(f.Name())] = true
		if inner := f.Message(); inner != nil {
			collectNames(inner, fields, enums, seen)
		}
		if enum := f.Enum(); enum != nil {
			for j := range enum.Values().Len() {
				enums[string(enum.Values().Get(j).Name())] = true
			}
		}
	}
}
