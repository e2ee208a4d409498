package hostile_test

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/hostile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestCompactIsProtojson(t *testing.T) {
	compared := 0
	for _, m := range models.All() {
		for _, sample := range hostile.Samples(t, "../..", m) {
			values := []proto.Message{sample}
			for _, v := range hostile.Generate(sample, nil) {
				values = append(values, v.Message)
			}
			for _, v := range values {
				text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(record.Redact(v))
				if err != nil {
					continue
				}
				if got, want := record.Compact(v), withoutSpace(string(text)); got != want {
					t.Fatalf("%s:\n%s\nexpected\n%s", m.Name(), got, want)
				}
				compared++
			}
		}
	}
	if compared < 1000 {
		t.Errorf("only %d values were compared", compared)
	}
}

func withoutSpace(text string) string {
	var b strings.Builder
	quoted, escaped := false, false
	for _, c := range text {
		if c != ' ' || quoted {
			b.WriteRune(c)
		}
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		}
	}
	return b.String()
}
