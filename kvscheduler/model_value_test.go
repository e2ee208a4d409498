package kvscheduler

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// modelValue is a value of the model. It contains its dependencies and derived values, so that random values
// make random graphs. Its text form consists of words:
//
//	v=N            content
//	r=N            a change re-creates the value
//	d:KEY          needs the key
//	any:PREFIX     needs any key with the prefix
//	D:x{WORDS}     derives the value dv/<base key>/x, which has a descriptor
//	P:p            derives the property pr/<base key>/p
//	inv            is invalid
type modelValue struct {
	V, R  int
	Needs []string // "d:KEY" or "any:PREFIX"
	Parts []modelPart
	Props []string
	Inv   bool
}

type modelPart struct {
	Name  string
	Value modelValue
}

func (v modelValue) String() string {
	words := []string{fmt.Sprintf("v=%d", v.V)}
	if v.R != 0 {
		words = append(words, fmt.Sprintf("r=%d", v.R))
	}
	words = append(words, v.Needs...)
	for _, p := range v.Parts {
		words = append(words, fmt.Sprintf("D:%s{%s}", p.Name, p.Value))
	}
	for _, p := range v.Props {
		words = append(words, "P:"+p)
	}
	if v.Inv {
		words = append(words, "inv")
	}
	return strings.Join(words, " ")
}

func parseModelValue(text string) (v modelValue, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		var word string
		if strings.HasPrefix(text, "D:") {
			open, end := strings.IndexByte(text, '{'), strings.IndexByte(text, '}')
			if open < 3 || end < open {
				return v, fmt.Errorf("derived value without braces: %q", text)
			}
			part, err := parseModelValue(text[open+1 : end])
			if err != nil {
				return v, err
			}
			name := text[2:open]
			if len(part.Parts)+len(part.Props) > 0 || strings.ContainsAny(name, "/ ") ||
				slices.ContainsFunc(v.Parts, func(p modelPart) bool { return p.Name == name }) {
				return v, fmt.Errorf("invalid derived value: %q", text[:end+1])
			}
			v.Parts = append(v.Parts, modelPart{name, part})
			text = text[end+1:]
			continue
		}
		word, text, _ = strings.Cut(text, " ")
		name, rest, _ := strings.Cut(word, ":")
		switch {
		case strings.HasPrefix(word, "v="):
			v.V, err = strconv.Atoi(word[2:])
		case strings.HasPrefix(word, "r="):
			v.R, err = strconv.Atoi(word[2:])
		case word == "inv":
			v.Inv = true
		case rest == "" || strings.ContainsAny(rest, "{}"):
			err = fmt.Errorf("unknown word %q", word)
		case name == "d" || name == "any":
			if slices.Contains(v.Needs, word) {
				err = fmt.Errorf("%q twice", word)
			}
			v.Needs = append(v.Needs, word)
		case name == "P":
			if slices.Contains(v.Props, rest) || strings.Contains(rest, "/") {
				err = fmt.Errorf("invalid property: %q", word)
			}
			v.Props = append(v.Props, rest)
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		if err != nil {
			return v, err
		}
	}
	return v, nil
}

func mustModelValue(text string) modelValue {
	v, err := parseModelValue(text)
	if err != nil {
		panic(err)
	}
	return v
}

// itself returns the value without its derived values, which exist separately.
func (v modelValue) itself() modelValue {
	v.Parts = nil
	return v
}

func partKey(base, name string) string     { return "dv/" + base + "/" + name }
func propertyKey(base, name string) string { return "pr/" + base + "/" + name }

// modelBase returns the key of the base value.
func modelBase(key string) string {
	if f := strings.Split(key, "/"); len(f) == 4 && (f[0] == "dv" || f[0] == "pr") {
		return f[1] + "/" + f[2]
	}
	return key
}

func modelMeets(need, key string) bool {
	kind, target, _ := strings.Cut(need, ":")
	if kind == "any" {
		return strings.HasPrefix(key, target)
	}
	return target == key
}

func (v modelValue) dependencies() []Dependency {
	var deps []Dependency
	for i, need := range v.Needs {
		kind, target, _ := strings.Cut(need, ":")
		d := Dependency{Label: fmt.Sprintf("%d %s", i, need)}
		if kind == "any" {
			d.AnyOf = AnyOf{KeyPrefixes: []string{target}}
		} else {
			d.Key = target
		}
		deps = append(deps, d)
	}
	return deps
}

func (v modelValue) derived(key string) []KeyValue {
	var kvs []KeyValue
	for _, p := range v.Parts {
		kvs = append(kvs, KeyValue{Key: partKey(key, p.Name), Value: val(p.Value.String())})
	}
	for _, p := range v.Props {
		kvs = append(kvs, KeyValue{Key: propertyKey(key, p), Value: val("v=0")})
	}
	return kvs
}

func (v modelValue) invalidPart() bool {
	return slices.ContainsFunc(v.Parts, func(p modelPart) bool { return p.Value.Inv })
}
