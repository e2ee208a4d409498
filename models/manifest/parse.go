package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/models"
	yamlv3 "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

type Value struct {
	Key     string
	Message proto.Message
	// Line is the first line of the document, from 1.
	Line int
}

// Parse reads all documents of a file and skips empty ones. The error lists all problems with the
// first lines of their documents.
func Parse(data []byte) ([]Value, error) {
	values, err := Examine(data)
	if err != nil {
		return nil, err
	}
	return values, nil
}

// Examine is Parse, but returns the valid documents even if there is an error.
func Examine(data []byte) ([]Value, error) {
	var values []Value
	var mistakes []error
	lines := make(map[string]int)
	decoder := yamlv3.NewDecoder(bytes.NewReader(data))
	for {
		var node yamlv3.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("is no YAML: %w", yamlMistake(err)))
			break // the rest cannot be parsed
		}
		if isEmpty(&node) {
			continue
		}
		v, err := parseDocument(&node)
		switch first := lines[v.Key]; {
		case err != nil:
			err = inLine(v.Line, err)
		case first != 0:
			err = fmt.Errorf("line %d: duplicate value of %s, also in line %d: keep one of them", v.Line, v.Key, first)
		}
		if err != nil {
			mistakes = append(mistakes, err)
			continue
		}
		lines[v.Key] = v.Line
		values = append(values, v)
	}
	return values, errors.Join(mistakes...)
}

// quoted matches the values in errors of the YAML libraries.
var quoted = regexp.MustCompile("(?s) `.*`| '.*'(?: referenced| value)|, key: .*|invalid map key:.*")

// yamlMistake returns the error without values: they may be secrets.
func yamlMistake(err error) error {
	return errors.New(quoted.ReplaceAllStringFunc(strings.TrimPrefix(err.Error(), "yaml: "), func(text string) string {
		for _, end := range []string{" referenced", " value"} {
			if strings.HasSuffix(text, end) {
				return end
			}
		}
		if strings.HasPrefix(text, "invalid") {
			return "invalid map key"
		}
		return ""
	}))
}

func isEmpty(document *yamlv3.Node) bool {
	return len(document.Content) == 0 || document.Content[0].Tag == "!!null"
}

// kubernetesObject detects manifests for kubectl.
type kubernetesObject struct{ APIVersion, Kind string }

// inLine prefixes each line of an error with the line of the document.
func inLine(line int, err error) error {
	place := fmt.Sprintf("line %d: ", line)
	return errors.New(place + strings.ReplaceAll(err.Error(), "\n", "\n"+place))
}

type document struct {
	Key   string          `json:"key,omitempty"`
	Model string          `json:"model,omitempty"`
	Value json.RawMessage `json:"value"`
}

func parseDocument(node *yamlv3.Node) (v Value, err error) {
	v.Line = node.Content[0].Line
	if node.Content[0].Kind != yamlv3.MappingNode {
		return v, errors.New("a value is expected: key (or model) and value")
	}
	// Marshalling resolves anchors and merge keys.
	text, err := yamlv3.Marshal(node)
	if err != nil {
		return v, yamlMistake(err)
	}
	text, err = yaml.YAMLToJSONStrict(text)
	if err != nil {
		return v, yamlMistake(err)
	}
	var d document
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&d); err != nil {
		if kind := (kubernetesObject{}); json.Unmarshal(text, &kind) == nil && kind.APIVersion != "" {
			return v, fmt.Errorf("%s is an object of Kubernetes, for kubectl: here, key (or model) and value are expected", kind.Kind)
		}
		return v, fmt.Errorf("only key, model and value are expected, the fields of a value belong under value: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(d.Value) == 0 || string(d.Value) == "null" {
		return v, errors.New("value is missing: to remove a value, remove its document")
	}
	if d.Value[0] != '{' {
		return v, errors.New("the value is not a mapping of fields")
	}
	if d.Key == "" {
		if d.Key, err = keyByModel(d.Model, d.Value); err != nil {
			return v, err
		}
	} else if err := modelAgrees(d); err != nil {
		return v, err
	}
	v.Key = d.Key
	v.Message, err = models.Unmarshal(d.Key, d.Value)
	return v, err
}

func keyByModel(name string, value []byte) (string, error) {
	m, err := modelNamed(name)
	if err != nil {
		return "", err
	}
	msg, err := m.Unmarshal(value)
	if err != nil {
		return "", err
	}
	return models.KeyOf(msg)
}

func modelNamed(name string) (*models.Model, error) {
	if name == "" {
		return nil, errors.New("key and model are missing: give one of them")
	}
	var names []string
	for _, m := range models.All() {
		if m.Name() == name || m.ProtoName() == name {
			return m, nil
		}
		names = append(names, m.Name())
	}
	if nearest, ok := config.Nearest(name, names); ok {
		return nil, fmt.Errorf("unknown model %q: did you mean %q?", name, nearest)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("unknown model %q: known models are %s", name, strings.Join(names, ", "))
}

func modelAgrees(d document) error {
	if d.Model == "" {
		return nil
	}
	m, err := modelNamed(d.Model)
	if err != nil {
		return err
	}
	if !m.Matches(d.Key) {
		return fmt.Errorf("key %q is not of model %s: leave out one of them", d.Key, d.Model)
	}
	return nil
}
