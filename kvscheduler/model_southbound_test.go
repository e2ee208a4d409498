package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// modelSouthbound is the southbound of the model.
//
//	a/<n>  updated in place, re-created if r= changes; read by key
//	b/<n>  like a/, but read as a whole; in batches if the sequence says so
//	c/<n>  re-created for every change
//	s/<n>  no derived values; applied when their stage is committed
//	o/<n>  obtained
//	dv/…   derived values with a descriptor
//	pr/…   properties
type modelSouthbound struct {
	batch, unknown bool
	stages         bool                  // register s/
	exists         map[string]modelValue // without their derived values
	faults         []*modelFault
	// hit holds the keys of failed calls.
	hit   map[string]bool
	fired int
	calls []string
	// deadAfter is the number of calls until the process dies, or -1.
	deadAfter int
	before    func(op, key string) // called before each operation
	// staged holds the versions before the prepared operations, by key.
	staged map[string]*modelValue
}

// modelFault makes the n-th call with the key and the following ones fail.
type modelFault struct {
	Key   string `json:"key,omitempty"`  // a key prefix for retrieve
	Call  string `json:"call,omitempty"` // create, update, delete or retrieve
	N     int    `json:"n,omitempty"`
	Times int    `json:"times,omitempty"`
	Late  bool   `json:"late,omitempty"`  // the call takes effect before it fails
	Panic bool   `json:"panic,omitempty"` // panic instead of an error
	Hang  bool   `json:"hang,omitempty"`  // hang until the deadline
	seen  int
}

func newModelSouthbound(batch, unknown bool) *modelSouthbound {
	return &modelSouthbound{batch: batch, unknown: unknown, exists: map[string]modelValue{}, staged: map[string]*modelValue{}, hit: map[string]bool{}, deadAfter: -1}
}

var errModel = errors.New("injected failure")

func (sb *modelSouthbound) operate(ctx context.Context, call, key string, effect func()) error {
	if sb.dead() {
		return errModel
	}
	if sb.before != nil {
		sb.before(call, key)
	}
	sb.calls = append(sb.calls, strings.ToUpper(call)+" "+key)
	if sb.deadAfter > 0 {
		sb.deadAfter--
	}
	var fate *modelFault
	for _, f := range sb.faults {
		if f.Call == call && f.Key == key {
			if f.seen++; f.seen >= f.N && f.seen < f.N+f.Times {
				fate = f
			}
		}
	}
	if fate == nil {
		effect()
		return nil
	}
	sb.fired++
	sb.hit[key] = true
	sb.calls[len(sb.calls)-1] += " fails"
	if fate.Late {
		effect()
	}
	switch {
	case fate.Panic:
		panic(errModel)
	case fate.Hang:
		<-ctx.Done()
		return ctx.Err()
	}
	return errModel
}

func (sb *modelSouthbound) dead() bool { return sb.deadAfter == 0 }

// hitPartOf reports whether a call for the base value or one of its derived values failed.
func (sb *modelSouthbound) hitPartOf(base string) bool {
	for key := range sb.hit {
		if modelBase(key) == base {
			return true
		}
	}
	return false
}

// put creates a value with its derived values without the scheduler.
func (sb *modelSouthbound) put(key string, v modelValue) {
	sb.remove(key)
	sb.exists[key] = v.itself()
	for _, p := range v.Parts {
		sb.exists[partKey(key, p.Name)] = p.Value
	}
}

func (sb *modelSouthbound) remove(key string) {
	delete(sb.exists, key)
	for k := range sb.exists {
		if modelBase(k) == key {
			delete(sb.exists, k)
		}
	}
}

// keys returns all existing keys, including properties.
func (sb *modelSouthbound) keys() map[string]bool {
	all := map[string]bool{}
	for key, v := range sb.exists {
		all[key] = true
		for _, p := range v.Props {
			all[propertyKey(key, p)] = true
		}
	}
	return all
}

func (sb *modelSouthbound) content() []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(sb.exists)) {
		lines = append(lines, key+"  "+sb.exists[key].String())
	}
	return lines
}

func (sb *modelSouthbound) register(s *Scheduler) {
	for _, kind := range []string{"a/", "b/", "c/"} {
		d := sb.descriptor(kind)
		d.NB = true
		d.DerivedValues = func(key string, v text) []KeyValue { return mustModelValue(v.Value).derived(key) }
		d.Retrieve = func(ctx context.Context, _ []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
			return sb.read(ctx, kind, nil)
		}
		if kind != "b/" {
			d.RetrieveKeys = func(ctx context.Context, expected []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
				only := map[string]bool{}
				for _, it := range expected {
					only[it.Key] = true
				}
				return sb.read(ctx, kind, only)
			}
		}
		if kind != "a/" && sb.batch {
			sb.inBatches(&d)
		}
		if kind == "c/" {
			d.Update = nil
		}
		mustRegister(s, d)
	}
	if sb.stages {
		staged := sb.descriptor("s/")
		staged.NB = true
		staged.Stage = &Stage{Name: "s", Commit: sb.commit}
		sb.prepareInStage(&staged)
		staged.Retrieve = func(ctx context.Context, _ []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
			return sb.read(ctx, "s/", nil)
		}
		mustRegister(s, staged)
	}
	d := sb.descriptor("dv/")
	if sb.batch {
		sb.inBatches(&d)
	}
	mustRegister(s, d)
	mustRegister(s, Descriptor[text, NoMetadata]{Name: "o/", Keys: KeySpace{Prefix: "o/"},
		Retrieve: func(ctx context.Context, _ []Item[text, NoMetadata]) ([]Item[text, NoMetadata], error) {
			items, err := sb.read(ctx, "o/", nil)
			for i := range items {
				items[i].Origin = FromSB
			}
			return items, err
		}})
}

func mustRegister(s *Scheduler, d Descriptor[text, NoMetadata]) {
	if err := Register(s, d); err != nil {
		panic(err)
	}
}

func (sb *modelSouthbound) descriptor(prefix string) Descriptor[text, NoMetadata] {
	ofNothing := func(key string) error {
		if _, whole := sb.exists[modelBase(key)]; !whole && modelBase(key) != key {
			return fmt.Errorf("%s has no base value", key)
		}
		return nil
	}
	return Descriptor[text, NoMetadata]{
		Name: prefix, Keys: KeySpace{Prefix: prefix},
		Validate: func(_ string, v text) error {
			if mustModelValue(v.Value).Inv {
				return NewInvalidValueError(errors.New("it says so"), "inv")
			}
			return nil
		},
		Equivalent: func(_ string, a, b text) bool {
			return mustModelValue(a.Value).itself().String() == mustModelValue(b.Value).itself().String()
		},
		UpdateWithRecreate: func(_ string, a, b text, _ NoMetadata) bool {
			return mustModelValue(a.Value).R != mustModelValue(b.Value).R
		},
		Dependencies: func(_ string, v text) []Dependency { return mustModelValue(v.Value).dependencies() },
		Create: func(ctx context.Context, key string, v text) (m NoMetadata, err error) {
			if err := ofNothing(key); err != nil {
				return m, err
			}
			return m, sb.operate(ctx, "create", key, func() { sb.exists[key] = mustModelValue(v.Value).itself() })
		},
		Update: func(ctx context.Context, key string, _, v text, _ NoMetadata) (m NoMetadata, err error) {
			if err := ofNothing(key); err != nil {
				return m, err
			}
			return m, sb.operate(ctx, "update", key, func() { sb.exists[key] = mustModelValue(v.Value).itself() })
		},
		Delete: func(ctx context.Context, key string, _ text, _ NoMetadata) error {
			return sb.operate(ctx, "delete", key, func() { sb.remove(key) })
		},
	}
}

// prepareInStage makes the operations of a descriptor store the previous versions.
func (sb *modelSouthbound) prepareInStage(d *Descriptor[text, NoMetadata]) {
	create, update, del := d.Create, d.Update, d.Delete
	note := func(key string) func(error) {
		v, existed := sb.exists[key]
		return func(err error) {
			if _, known := sb.staged[key]; known || err != nil {
				return
			}
			sb.staged[key] = nil
			if existed {
				sb.staged[key] = &v
			}
		}
	}
	d.Create = func(ctx context.Context, key string, v text) (NoMetadata, error) {
		done := note(key)
		m, err := create(ctx, key, v)
		done(err)
		return m, err
	}
	d.Update = func(ctx context.Context, key string, old, v text, m NoMetadata) (NoMetadata, error) {
		done := note(key)
		m, err := update(ctx, key, old, v, m)
		done(err)
		return m, err
	}
	d.Delete = func(ctx context.Context, key string, v text, m NoMetadata) error {
		done := note(key)
		err := del(ctx, key, v, m)
		done(err)
		return err
	}
}

// commit applies the prepared operations, or undoes them if it fails.
func (sb *modelSouthbound) commit(ctx context.Context) error {
	staged := sb.staged
	sb.staged = map[string]*modelValue{}
	before := sb.before
	sb.before = nil // a commit is no operation of a value
	defer func() { sb.before = before }()
	effect, fired := false, sb.fired
	defer func() {
		for key, v := range staged {
			if sb.fired > fired {
				sb.hit[key] = true
			}
			if effect {
				continue
			}
			if delete(sb.exists, key); v != nil {
				sb.exists[key] = *v
			}
		}
	}()
	return sb.operate(ctx, "commit", "stage", func() { effect = true })
}

func (sb *modelSouthbound) inBatches(d *Descriptor[text, NoMetadata]) {
	create, del := d.Create, d.Delete
	each := func(n int, call func(i int) error) []error {
		errs := make([]error, n)
		for i := range errs {
			func() {
				defer caught(&errs[i], d.Name, "batch")
				errs[i] = call(i)
			}()
		}
		return errs
	}
	d.CreateBatch = func(ctx context.Context, values []Item[text, NoMetadata]) ([]NoMetadata, []error) {
		return nil, each(len(values), func(i int) error {
			_, err := create(ctx, values[i].Key, values[i].Value)
			return err
		})
	}
	d.DeleteBatch = func(ctx context.Context, values []Item[text, NoMetadata]) []error {
		return each(len(values), func(i int) error { return del(ctx, values[i].Key, values[i].Value, values[i].Metadata) })
	}
}

// read returns the base values with their existing derived values.
func (sb *modelSouthbound) read(ctx context.Context, prefix string, only map[string]bool) (items []Item[text, NoMetadata], err error) {
	if sb.dead() {
		return nil, errModel
	}
	for _, f := range sb.faults {
		if f.Call == "retrieve" && f.Key == prefix {
			if f.seen++; f.seen >= f.N && f.seen < f.N+f.Times {
				sb.fired++
				sb.hit[prefix] = true
				switch {
				case f.Panic:
					panic(errModel)
				case f.Hang:
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return nil, errModel
			}
		}
	}
	origin := FromNB
	if sb.unknown {
		origin = UnknownOrigin
	}
	for _, key := range slices.Sorted(maps.Keys(sb.exists)) {
		if strings.HasPrefix(key, prefix) && (only == nil || only[key]) {
			items = append(items, Item[text, NoMetadata]{Key: key, Value: val(sb.whole(key).String()), Origin: origin})
		}
	}
	return items, nil
}

func (sb *modelSouthbound) whole(key string) modelValue {
	v := sb.exists[key]
	v.Parts = nil
	for _, k := range slices.Sorted(maps.Keys(sb.exists)) {
		if name, ok := strings.CutPrefix(k, "dv/"+key+"/"); ok {
			v.Parts = append(v.Parts, modelPart{name, sb.exists[k]})
		}
	}
	return v
}
