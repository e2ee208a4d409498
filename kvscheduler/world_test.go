package kvscheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// world is the southbound of the property tests. Its values contain their dependencies and derived values, so
// that random values make random graphs.
//
//	k/<n>  base values; re-created when the parity of V changes; keyed retrieve
//	r/<n>  base values; always updated; retrieve of everything; batches
//	o/<n>  obtained
//	d/<base>/<item>  derived with operations of their own
//	p/<base>/<item>  properties
type world struct {
	exists map[string]spec // the items of base values are properties
	calls  int
	ops    []string
	// outcome, if not nil, returns the outcome of a call.
	outcome func(op, key string) outcome
	// between, if not nil, is called before each operation.
	between func(op, key string)
	dead    bool // the process is dead: calls have no effect
}

type spec struct {
	V     int
	Deps  []string `json:",omitempty"` // keys, or "any:" and a prefix
	Items []string `json:",omitempty"`
}

type outcome int

const (
	succeeds outcome = iota
	failsBefore
	failsAfter // after the call took effect
	panicsBefore
	panicsAfter
	hangsBefore
	hangsAfter
	outcomes
	// refuses returns ErrUnsupported; random sequences do not use it.
	refuses
)

func (sp spec) value() text {
	b, _ := json.Marshal(sp)
	return val(string(b))
}

func parseSpec(v text) spec {
	var sp spec
	if err := json.Unmarshal([]byte(v.Value), &sp); err != nil {
		panic(err)
	}
	return sp
}

func isProperty(item string) bool { return item == "p" || item == "q" }

// itself returns the value without its derived values.
func (sp spec) itself() spec {
	c := sp
	c.Items = nil
	for _, it := range sp.Items {
		if isProperty(it) {
			c.Items = append(c.Items, it)
		}
	}
	return c
}

func derivedKey(base, item string) string {
	kind := "d/"
	if isProperty(item) {
		kind = "p/"
	}
	return kind + strings.ReplaceAll(base, "/", "") + "/" + item
}

func itemDeps(item string) []string {
	switch item {
	case "b":
		return []string{"k/0"}
	case "c":
		return []string{"any:o/"}
	case "e":
		return []string{"d/k1/b"}
	case "q":
		return []string{"any:p/k"}
	}
	return nil
}

func depsOf(specs []string) []Dependency {
	var deps []Dependency
	for i, d := range specs {
		dep := Dependency{Label: fmt.Sprintf("%d %s", i, d)}
		if prefix, ok := strings.CutPrefix(d, "any:"); ok {
			dep.AnyOf = AnyOf{KeyPrefixes: []string{prefix}}
		} else {
			dep.Key = d
		}
		deps = append(deps, dep)
	}
	return deps
}

var errInjected = errors.New("injected failure")

func (w *world) operate(ctx context.Context, op, key string, effect func()) error {
	w.calls++
	w.ops = append(w.ops, op+" "+key)
	if w.between != nil {
		w.between(op, key)
	}
	if w.dead {
		return errInjected
	}
	o := succeeds
	if w.outcome != nil {
		o = w.outcome(op, key)
	}
	if w.dead {
		return errInjected
	}
	switch o {
	case failsBefore:
		return errInjected
	case refuses:
		return fmt.Errorf("%w: injected", ErrUnsupported)
	case panicsBefore:
		panic(errInjected)
	case hangsBefore:
		<-ctx.Done()
		return ctx.Err()
	}
	effect()
	switch o {
	case failsAfter:
		return errInjected
	case panicsAfter:
		panic(errInjected)
	case hangsAfter:
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (w *world) register(s *Scheduler) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	for _, kind := range []string{"k", "r"} {
		d := w.crud(kind, kind+"/")
		d.NB = true
		d.Equivalent = func(_ string, a, b text) bool {
			x, _ := json.Marshal(parseSpec(a).itself())
			y, _ := json.Marshal(parseSpec(b).itself())
			return string(x) == string(y)
		}
		d.Dependencies = func(_ string, v text) []Dependency { return depsOf(parseSpec(v).Deps) }
		d.DerivedValues = func(key string, v text) []KeyValue {
			var kvs []KeyValue
			for _, it := range parseSpec(v).Items {
				kvs = append(kvs, KeyValue{Key: derivedKey(key, it), Value: val(it)})
			}
			return kvs
		}
		d.Retrieve = func(ctx context.Context, _ []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
			return w.read(ctx, kind+"/", nil)
		}
		if kind == "r" {
			create, del := d.Create, d.Delete
			d.CreateBatch = func(ctx context.Context, values []Item[text, NoMetadata]) ([]NoMetadata, []error) {
				errs := make([]error, len(values))
				for i, it := range values {
					_, errs[i] = create(ctx, it.Key, it.Value)
				}
				return nil, errs
			}
			d.DeleteBatch = func(ctx context.Context, values []Item[text, NoMetadata]) []error {
				errs := make([]error, len(values))
				for i, it := range values {
					errs[i] = del(ctx, it.Key, it.Value, it.Metadata)
				}
				return errs
			}
		}
		if kind == "k" {
			d.UpdateWithRecreate = func(_ string, a, b text, _ NoMetadata) bool { return parseSpec(a).V%2 != parseSpec(b).V%2 }
			d.RetrieveKeys = func(ctx context.Context, expected []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
				only := map[string]bool{}
				for _, it := range expected {
					only[it.Key] = true
				}
				return w.read(ctx, kind+"/", only)
			}
		}
		check(Register(s, d))
	}
	d := w.crud("d", "d/")
	d.Dependencies = func(key string, _ text) []Dependency { return depsOf(itemDeps(key[strings.LastIndex(key, "/")+1:])) }
	check(Register(s, d))
	check(Register(s, Descriptor[text, NoMetadata]{Name: "o", Keys: KeySpace{Prefix: "o/"},
		Retrieve: func(context.Context, []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
			var items []Item[text, NoMetadata]
			for key, sp := range w.exists {
				if strings.HasPrefix(key, "o/") {
					items = append(items, Item[text, NoMetadata]{Key: key, Value: sp.value(), Origin: FromSB})
				}
			}
			return items, nil
		}}))
}

func (w *world) crud(name, prefix string) Descriptor[text, NoMetadata] {
	parse := func(key string, v text) spec {
		if strings.HasPrefix(key, "d/") {
			return spec{}
		}
		return parseSpec(v).itself()
	}
	return Descriptor[text, NoMetadata]{
		Name: name, Keys: KeySpace{Prefix: prefix},
		Create: func(ctx context.Context, key string, v text) (m NoMetadata, err error) {
			if f := strings.Split(key, "/"); f[0] == "d" {
				if _, ok := w.exists[f[1][:1]+"/"+f[1][1:]]; !ok {
					return m, fmt.Errorf("%s: base value does not exist", key)
				}
			}
			return m, w.operate(ctx, "CREATE", key, func() { w.exists[key] = parse(key, v) })
		},
		Update: func(ctx context.Context, key string, _, v text, _ NoMetadata) (m NoMetadata, err error) {
			return m, w.operate(ctx, "UPDATE", key, func() { w.exists[key] = parse(key, v) })
		},
		Delete: func(ctx context.Context, key string, _ text, _ NoMetadata) error {
			return w.operate(ctx, "DELETE", key, func() { delete(w.exists, key) })
		},
	}
}

func (w *world) read(ctx context.Context, prefix string, only map[string]bool) ([]Item[text, NoMetadata], error) {
	var items []Item[text, NoMetadata]
	if w.dead {
		return nil, errInjected
	}
	if w.outcome != nil {
		switch w.outcome("RETRIEVE", prefix) {
		case succeeds:
		case panicsAfter, panicsBefore:
			panic(errInjected)
		case hangsAfter, hangsBefore:
			<-ctx.Done()
			return nil, ctx.Err()
		default:
			return nil, errInjected
		}
	}
	for key, sp := range w.exists {
		if strings.HasPrefix(key, prefix) && (only == nil || only[key]) {
			for _, it := range []string{"a", "b", "c", "e"} {
				if _, ok := w.exists[derivedKey(key, it)]; ok {
					sp.Items = append(slices.Clone(sp.Items), it)
				}
			}
			items = append(items, Item[text, NoMetadata]{Key: key, Value: sp.value(), Origin: FromNB})
		}
	}
	return items, nil
}

func content(exists map[string]spec) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(exists)) {
		b, _ := json.Marshal(exists[key])
		lines = append(lines, key+" "+string(b))
	}
	return lines
}
