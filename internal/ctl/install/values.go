package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// valuesMap is the ConfigMap in which the chart records its values, except for configuration files.
const (
	valuesMap = "contiv-values"
	valuesKey = "values.yaml"
)

// sections lists the chart values that become configuration files.
var sections = map[string][]string{
	"contiv.conf":     {"contiv"},
	"controller.conf": {"controller"},
	"service.conf":    {"service"},
	"etcd.conf":       {"etcd", "options"},
	"vpp.conf":        {"vpp", "config"},
	apiServerKey:      {"apiServer"},
}

// chosenValues returns the recorded values of the installation; nil if none are recorded.
func (c *Cluster) chosenValues(ctx context.Context) (map[string]any, error) {
	data, err := c.configMap(ctx, valuesMap)
	if err != nil || data == nil {
		return nil, err
	}
	values, err := parseValues([]byte(data[valuesKey]))
	if err == nil {
		err = checkValues(values)
	}
	if err != nil {
		return nil, fmt.Errorf("values of the installation, in ConfigMap %s/%s: %w (use the version of contivctl that installed it, or fix the ConfigMap)", Namespace, valuesMap, err)
	}
	return values, nil
}

// keepValues adds the installation's values that m does not set. If m sets options of a
// configuration file, the file's other options are kept, and the file is removed from files.
func (c *Cluster) keepValues(ctx context.Context, m *Manifests, files map[string]string) error {
	chosen, err := c.chosenValues(ctx)
	if err != nil {
		return err
	}
	if chosen == nil {
		c.say("the chart values of this installation are unknown: using the defaults for values that --values does not set")
	}
	for file, path := range sections {
		if text, has := files[file]; has && valueAt(m.Values, path...) != nil {
			var options any = text
			if file != apiServerKey {
				if options, err = parseValues([]byte(text)); err != nil {
					return fmt.Errorf("%s of the cluster: %w", file, err)
				}
			}
			chosen = overlay(chosen, at(options, path...))
			delete(files, file)
		}
	}
	m.Values = overlay(chosen, m.Values)
	return nil
}

// valueAt returns the value at a path; nil if none.
func valueAt(values map[string]any, path ...string) any {
	for _, name := range path[:len(path)-1] {
		values, _ = values[name].(map[string]any)
	}
	return values[path[len(path)-1]]
}

// at returns values with a single value at a path.
func at(v any, path ...string) map[string]any {
	values := map[string]any{path[len(path)-1]: v}
	for i := len(path) - 2; i >= 0; i-- {
		values = map[string]any{path[i]: values}
	}
	return values
}

// noYAML returns parser errors on one line, such as "line 3: key \"a\" already set in map".
func noYAML(err error) error {
	text := err.Error()
	if _, after, found := strings.Cut(text, "yaml: "); found {
		text = after
	}
	lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:")), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return errors.New("invalid YAML: " + strings.Join(lines, "; "))
}

func parseValues(text []byte) (map[string]any, error) {
	var parsed any
	if err := yaml.UnmarshalStrict(text, &parsed); err != nil {
		return nil, noYAML(err)
	}
	switch values := parsed.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return values, nil
	}
	return nil, errors.New("not a map of values such as contiv: {mtuSize: 1400}")
}
