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

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

const planPath = "/scheduler/plan"

func (c *cli) planCommand() *cobra.Command {
	var file string
	var whole bool
	cmd := &cobra.Command{
		Use:   "plan -f FILE [NODE]",
		Short: "Show the operations of a change without applying it",
		Long: "Show the operations that a node would execute for the values in a file. Nothing is changed. The file\n" +
			"has the form of \"config apply\", or maps keys to values, where null deletes a value:\n\n" +
			"  config/vpp/v2/interfaces/loop1:\n" +
			"    name: loop1\n" +
			"    type: SOFTWARE_LOOPBACK\n" +
			"    ip_addresses: [10.9.9.9/32]\n" +
			"  config/vpp/v2/route/vrf/0/dst/10.8.0.0/16: null\n\n" +
			"It may also be the part \"Values\" of the output of \"contivctl txns SEQ -o json\".",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if file == "" {
				return Misused(errors.New("-f is missing: use a file with values, or \"-\" for standard input"))
			}
			request, err := readPlan(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if whole {
				request.ResyncType = "FullResync"
			}
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			if len(agents) > 1 {
				return Misused(fmt.Errorf("a plan is for one node: select it with --node: %s", strings.Join(target.Names(agents), ", ")))
			}
			return c.showPlan(ctx, agents[0], request)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with values in YAML or JSON, directory of such files, or - for standard input")
	cmd.Flags().BoolVar(&whole, "whole", false, "treat the file as all values of the node: delete values that are not in it")
	return cmd
}

func (c *cli) showPlan(ctx context.Context, agent *Agent, request inspect.PlanRequest) error {
	answers := target.Ask(ctx, []*Agent{agent}, func(ctx context.Context, a *Agent) (reply inspect.PlanReply, err error) {
		err = a.Post(ctx, planPath, nil, request, &reply)
		return reply, err
	})
	if err := show(c, answers, writePlan); err != nil {
		return err
	}
	if answers[0].Value.Error != "" {
		return ErrReported
	}
	return nil
}

func writePlan(p printer, good []answer[inspect.PlanReply]) {
	reply := good[0].Value
	if len(reply.Planned) == 0 && reply.Error == "" {
		p.Printf("%s has it like this already: no operation\n", good[0].Agent.Name)
		return
	}
	if len(reply.Planned) > 0 {
		writeOperations(p, reply.Planned, nil)
	}
	switch told := slices.ContainsFunc(reply.Planned, func(op kvscheduler.RecordedOp) bool { return op.NewErr != nil }); {
	case told:
		p.Printf("Not all of this can be done: see the errors.\n")
	case reply.Error != "":
		p.Printf("Not all of this can be done: %s\n", reply.Error)
	}
}

// readPlan reads the values of a file and makes the checks that need no agent.
func readPlan(file string, stdin io.Reader) (request inspect.PlanRequest, err error) {
	name, data := file, []byte(nil)
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return planOf(files{file}, stdin)
	}
	if file == "-" {
		name = "standard input"
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return request, fmt.Errorf("values cannot be read: %w", err)
	}
	if isManifest(data) {
		return planOf(files{file}, bytes.NewReader(data))
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return request, fmt.Errorf("%s: %w", name, err)
	}
	text = bytes.TrimSpace(text)
	if len(text) == 0 || string(text) == "null" || string(text) == "{}" || string(text) == "[]" {
		return request, fmt.Errorf("%s has no values: see --help for the format", name)
	}
	switch text[0] {
	case '[':
		if json.Unmarshal(text, &request.Values) != nil {
			err = errors.New("expected a map of keys to values, not a list: see --help for the format")
		}
	case '{':
		request.Values, err = readValues(text)
	default:
		err = errors.New("expected a map of keys to values: see --help for the format")
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

// isManifest reports whether the data has the form of "config apply": documents with a value and
// its key or model.
func isManifest(data []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimPrefix(bytes.TrimSpace(data), []byte("---\n")), []byte("\n---"))
	var document map[string]any
	if yaml.Unmarshal(first, &document) != nil {
		return false
	}
	_, value := document["value"]
	_, key := document["key"]
	_, model := document["model"]
	return value && (key || model)
}

// planOf returns the request for the values of files in the form of "config apply".
func planOf(f files, stdin io.Reader) (request inspect.PlanRequest, err error) {
	want, err := f.read(stdin)
	if err == nil {
		request = planFor(want, nil)
	}
	return request, err
}

// planFor returns the request for values and for removals.
func planFor(want *parsed, removed []string) (request inspect.PlanRequest) {
	for _, v := range want.values {
		request.Values = append(request.Values, kvscheduler.KeyValue{Key: v.Key, Value: v.Message})
	}
	for _, key := range removed {
		request.Values = append(request.Values, kvscheduler.KeyValue{Key: key})
	}
	return request
}

// nodePrefix is the prefix of keys in etcd.
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
		if string(members[key]) == "null" {
			err = models.CheckKey(kv.Key)
		} else {
			kv.Value, err = models.Unmarshal(kv.Key, members[key])
			err = withoutPlace(err)
		}
		if err != nil {
			mistakes = append(mistakes, err)
		}
		values = append(values, kv)
	}
	return values, errors.Join(mistakes...)
}

// place matches the position of a mistake in JSON, which users do not know because the JSON was
// made from YAML. The space after "proto:" may be of any kind.
var place = regexp.MustCompile(`proto:[\s\x{a0}]*(?:syntax error )?\(line \d+:\d+\):[\s\x{a0}]*`)

func withoutPlace(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(place.ReplaceAllString(err.Error(), ""))
}
