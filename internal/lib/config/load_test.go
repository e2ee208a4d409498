package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
	"github.com/google/go-cmp/cmp"
)

type embedded struct {
	MTU int `json:"mtu"`
}

type sample struct {
	embedded
	EnableRetry bool              `json:"enableRetry"`
	DelayRetry  config.Duration   `json:"delayRetry"`
	Name        string            `json:"name"`
	Nodes       []node            `json:"nodeConfig"`
	Labels      map[string]uint32 `json:"labels"`
	Optional    *node             `json:"optional"`
	//lint:ignore U1000 fields that are not exported must be left alone
	hidden int
}

type node struct {
	NodeName string `json:"nodeName"`
	DHCP     bool   `json:"useDHCP"`
}

func TestLoad(t *testing.T) {
	for _, test := range []struct {
		name, doc string
		want      sample
	}{
		{"empty document keeps defaults", "", sample{Name: "default"}},
		{"comment only", "# nothing\n", sample{Name: "default"}},
		{"scalars", "enableRetry: True\nmtu: 1450\n", sample{Name: "default", EnableRetry: true, embedded: embedded{1450}}},
		{"duration in nanoseconds", "delayRetry: 5000000000", sample{Name: "default", DelayRetry: config.Duration(5 * time.Second)}},
		{"duration in Go form", "delayRetry: 1m30s", sample{Name: "default", DelayRetry: config.Duration(90 * time.Second)}},
		{"JSON", `{"name": "a", "labels": {"x": 1}}`, sample{Name: "a", Labels: map[string]uint32{"x": 1}}},
		{"lists and nested keys", "nodeConfig:\n- nodeName: n1\n  useDHCP: true\noptional:\n  nodeName: n2\n",
			sample{Name: "default", Nodes: []node{{"n1", true}}, Optional: &node{"n2", false}}},
		{"anchors", "optional: &n\n  nodeName: n1\nnodeConfig:\n- *n\n- <<: *n\n  useDHCP: true\n",
			sample{Name: "default", Nodes: []node{{"n1", false}, {"n1", true}}, Optional: &node{"n1", false}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := sample{Name: "default"}
			if err := config.Load([]byte(test.doc), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(sample{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	for _, test := range []struct{ name, doc, want string }{
		{"mistyped key", "name: a\nenableRetri: true", `line 2: unknown key "enableRetri": did you mean "enableRetry"?`},
		{"wrong case", "EnableRetry: true", `did you mean "enableRetry"?`},
		{"nothing similar", "colour: red", `unknown key "colour": known keys here are mtu, enableRetry,`},
		{"nested key", "nodeConfig:\n- nodeName: a\n- nodename: b", `line 3: unknown key "nodeConfig[1].nodename": did you mean "nodeName"?`},
		{"unexported field", "hidden: 1", "unknown key"},
		{"wrong type", "enableRetry: 5", `line 1: value of "enableRetry" is 5: true or false is expected`},
		{"number for a text", "name: 5", "a text (in quotes) is expected"},
		{"negative", "labels: {a: -1}", `value of "labels.a" is -1: a whole number from 0 to 4294967295 is expected`},
		{"bad duration", "delayRetry: soon", "a duration is expected"},
		{"scalar for a list", "nodeConfig: a", `value of "nodeConfig": a list expected`},
		{"list for the document", "- a", "the document must consist of keys with values"},
		{"key twice", "name: a\nmtu: 1\nname: b", `line 3: key "name" was already given in line 1`},
		{"two documents", "name: a\n---\nname: b", "only one is allowed"},
		{"no YAML", "name: [", "line 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := sample{Name: "default"}
			err := config.Load([]byte(test.doc), &got)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if diff := cmp.Diff(sample{Name: "default"}, got, cmp.AllowUnexported(sample{})); diff != "" {
				t.Errorf("changed in spite of the error: %s", diff)
			}
		})
	}
}

func TestLoadReportsAllMistakes(t *testing.T) {
	err := config.Load([]byte("nam: a\nmtu: x\n"), &sample{})
	if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want both lines", err)
	}
}

func TestLoadFileNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controller.conf")
	if err := config.LoadFile(path, &sample{}); !os.IsNotExist(unwrap(err)) {
		t.Errorf("missing file: got %v", err)
	}
	if err := os.WriteFile(path, []byte("nam: a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.LoadFile(path, &sample{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want the path in it", err)
	}
}

func unwrap(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

// Any file is either loaded or refused.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("nodeConfig:\n- nodeName: a\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("optional: &a\n  <<: *a\n"))
	f.Fuzz(func(_ *testing.T, data []byte) { _ = config.Load(data, &sample{}) })
}

// All errors are returned at once: of the form, and of check.
func TestAllMistakesAreFound(t *testing.T) {
	type inner struct {
		A int `json:"a"`
		B string
	}
	var into struct {
		Delay config.Duration `json:"delay"`
		Name  string          `json:"name"`
		In    inner           `json:"in"`
		List  []int           `json:"list"`
	}
	path := filepath.Join(t.TempDir(), "f.conf")
	if err := os.WriteFile(path, []byte("delay: 5\nnam: x\nname: n\nin: {a: x, B: b}\nlist: [1, x, 3]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := config.Examine(path, &into, func() error { return fmt.Errorf("name %s is taken, %s, %v", into.Name, into.In.B, into.List) })
	for _, want := range []string{"f.conf: line 1", "that is 5 nanoseconds", `did you mean "name"`, `"in.a" is "x"`, `"list[1]"`, "name n is taken, b, [1 3]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := os.WriteFile(path, []byte("name: n\ndelay: 5000000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := config.Examine(path, &into, func() error { return nil }); err != nil || into.Delay.Std() != 5*time.Second {
		t.Error(into.Delay, err)
	}
}
