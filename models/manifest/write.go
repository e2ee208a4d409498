package manifest

import (
	"bytes"
	"fmt"

	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// Format returns the documents of the values, in the order of the slice, such that Parse
// returns the same values. Only keys and messages are used.
func Format(values []Value) ([]byte, error) {
	var b bytes.Buffer
	for i, v := range values {
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := formatValue(v.Message)
		if err != nil {
			return nil, fmt.Errorf("value of %s: %w", v.Key, err)
		}
		key, err := yaml.Marshal(map[string]string{"key": v.Key})
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.Write(text)
	}
	return b.Bytes(), nil
}

func formatValue(msg proto.Message) ([]byte, error) {
	text, err := models.Marshal(msg)
	if err != nil {
		return nil, err
	}
	return yaml.JSONToYAML(append(append([]byte(`{"value":`), text...), '}'))
}
