package kvscheduler

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"

	"google.golang.org/protobuf/proto"
)

// handler is a Descriptor without type parameters, as the engine calls it. Missing optional callbacks
// are nil.
type handler struct {
	name      string
	keys      KeySpace
	nb        bool
	after     []string
	metadata  *metadataMap // nil if the descriptor has no metadata
	validator func(key string, v proto.Message) error

	equivalentFn func(key string, old, new proto.Message) (bool, error)
	recreateFn   func(key string, old, new proto.Message, meta any) (bool, error)
	releasesFn   func(key string, old, new proto.Message) (bool, error) // nil: never
	derivedFn    func(key string, v proto.Message) ([]KeyValue, error)
	depsFn       func(key string, v proto.Message) ([]Dependency, error)
	retriableFn  func(err error) bool
	sameMetadata func(a, b any) bool

	create       func(ctx context.Context, key string, v proto.Message) (any, error)
	delete       func(ctx context.Context, key string, v proto.Message, meta any) error
	update       func(ctx context.Context, key string, old, new proto.Message, meta any) (any, error)
	createBatch  func(ctx context.Context, items []item) ([]item, []error)
	deleteBatch  func(ctx context.Context, items []item) []error
	retrieve     func(ctx context.Context, expected []item) ([]item, error)
	retrieveKeys func(ctx context.Context, expected []item) ([]item, error)

	// running is the call that was abandoned at its deadline, until it returns.
	running *call

	stage  *stage // nil: operations take effect at once
	commit func(ctx context.Context) error
}

// item is an Item without type parameters.
type item = Item[proto.Message, any]

// newHandler validates the descriptor and wraps its callbacks. Conflicts between descriptors are
// detected by registry.with.
func newHandler[V proto.Message, M any](d Descriptor[V, M]) (*handler, error) {
	h := &handler{name: d.Name, keys: d.Keys, nb: d.NB, after: d.RetrieveAfter, retriableFn: d.Retriable}
	if d.Stage != nil {
		h.stage = newStage(d.Stage)
	}
	switch {
	case d.Name == "":
		return nil, fmt.Errorf("descriptor of keys %q has no Name", d.Keys.Prefix)
	case d.Keys.Prefix == "" && d.Keys.Match == nil:
		return nil, fmt.Errorf("descriptor %s: KeySpace is empty: set Prefix", d.Name)
	case d.Keys.Match != nil && d.Keys.Example == "":
		return nil, fmt.Errorf("descriptor %s: KeySpace has Match but no Example", d.Name)
	case d.Keys.Example != "" && !h.owns(d.Keys.Example):
		return nil, fmt.Errorf("descriptor %s: the Example %q is not in its own KeySpace", d.Name, d.Keys.Example)
	case d.Stage != nil && (d.Stage.Name == "" || d.Stage.Commit == nil):
		return nil, fmt.Errorf("descriptor %s: its Stage needs a Name and Commit", d.Name)
	case d.Stage != nil && d.DerivedValues != nil:
		return nil, fmt.Errorf("descriptor %s: a Stage excludes DerivedValues: drop one of them", d.Name)
	case d.NB && (d.Create == nil || d.Delete == nil):
		return nil, fmt.Errorf("descriptor %s: values requested by the northbound need Create and Delete", d.Name)
	}
	meta := reflect.TypeFor[M]()
	withMeta := meta.Kind() == reflect.Interface || meta.Size() > 0
	if withMeta {
		label := d.KeyLabel
		if label == nil {
			label = func(key string) string { return key }
		}
		h.metadata = newMetadataMap(label)
		for name, fn := range d.MetadataIndexes {
			h.metadata.index[name] = &metadataIndex{keysOf: func(m any) []string { return fn(metaOf[M](m)) }, labels: map[string]map[string]struct{}{}}
		}
	}
	h.sameMetadata = func(a, b any) bool { return !withMeta }
	if withMeta && meta.Comparable() && meta.Kind() != reflect.Interface {
		h.sameMetadata = func(a, b any) bool { return a == b }
	}
	// pack returns nil for descriptors without metadata.
	pack := func(m M) any {
		if !withMeta {
			return nil
		}
		return m
	}
	wrapPure(h, d)
	wrapCalls(h, d, pack)
	wrapBatch(h, d, pack)
	return h, nil
}

func wrapPure[V proto.Message, M any](h *handler, d Descriptor[V, M]) {
	h.validator = func(key string, v proto.Message) (err error) {
		defer caught(&err, d.Name, "Validate")
		value, err := valueOf[V](d.Name, key, v)
		if err != nil {
			return NewInvalidValueError(err)
		}
		if d.Validate == nil {
			return nil
		}
		return d.Validate(key, value)
	}
	if d.Equivalent != nil {
		h.equivalentFn = func(key string, old, new proto.Message) (eq bool, err error) {
			defer caught(&err, d.Name, "Equivalent")
			o, ok1 := old.(V)
			n, ok2 := new.(V)
			return ok1 && ok2 && d.Equivalent(key, o, n), nil
		}
	}
	h.recreateFn = func(key string, old, new proto.Message, meta any) (re bool, err error) {
		defer caught(&err, d.Name, "UpdateWithRecreate")
		o, ok1 := old.(V)
		n, ok2 := new.(V)
		if !ok1 || !ok2 || d.Update == nil {
			return true, nil
		}
		return d.UpdateWithRecreate != nil && d.UpdateWithRecreate(key, o, n, metaOf[M](meta)), nil
	}
	if d.Releases != nil {
		h.releasesFn = func(key string, old, new proto.Message) (releases bool, err error) {
			defer caught(&err, d.Name, "Releases")
			o, ok1 := old.(V)
			n, ok2 := new.(V)
			return ok1 && ok2 && d.Releases(key, o, n), nil
		}
	}
	if d.DerivedValues != nil {
		h.derivedFn = func(key string, v proto.Message) (kvs []KeyValue, err error) {
			defer caught(&err, d.Name, "DerivedValues")
			value, err := valueOf[V](d.Name, key, v)
			if err != nil {
				return nil, err
			}
			return d.DerivedValues(key, value), nil
		}
	}
	if d.Dependencies != nil {
		h.depsFn = func(key string, v proto.Message) (deps []Dependency, err error) {
			defer caught(&err, d.Name, "Dependencies")
			value, err := valueOf[V](d.Name, key, v)
			if err != nil {
				return nil, err
			}
			return d.Dependencies(key, value), nil
		}
	}
}

// wrapCalls wraps the callbacks that access the southbound. The caller recovers their panics.
func wrapCalls[V proto.Message, M any](h *handler, d Descriptor[V, M], pack func(M) any) {
	if d.Create != nil {
		h.create = func(ctx context.Context, key string, v proto.Message) (any, error) {
			value, err := valueOf[V](d.Name, key, v)
			if err != nil {
				return nil, err
			}
			m, err := d.Create(ctx, key, value)
			return pack(m), err
		}
	}
	if d.Delete != nil {
		h.delete = func(ctx context.Context, key string, v proto.Message, meta any) error {
			value, err := valueOf[V](d.Name, key, v)
			if err != nil {
				return err
			}
			return d.Delete(ctx, key, value, metaOf[M](meta))
		}
	}
	if d.Update != nil {
		h.update = func(ctx context.Context, key string, old, new proto.Message, meta any) (any, error) {
			o, err := valueOf[V](d.Name, key, old)
			if err != nil {
				return nil, err
			}
			n, err := valueOf[V](d.Name, key, new)
			if err != nil {
				return nil, err
			}
			m, err := d.Update(ctx, key, o, n, metaOf[M](meta))
			return pack(m), err
		}
	}
	wrap := func(read func(context.Context, []Item[V, M]) ([]Item[V, M], error)) func(context.Context, []item) ([]item, error) {
		if read == nil {
			return nil
		}
		return func(ctx context.Context, expected []item) ([]item, error) {
			typed := make([]Item[V, M], 0, len(expected))
			for _, it := range expected {
				if value, ok := it.Value.(V); ok {
					typed = append(typed, Item[V, M]{it.Key, value, metaOf[M](it.Metadata), it.Origin})
				}
			}
			found, err := read(ctx, typed)
			if err != nil {
				return nil, err
			}
			items := make([]item, 0, len(found))
			for _, it := range found {
				if isNil(it.Value) {
					continue
				}
				items = append(items, item{it.Key, it.Value, pack(it.Metadata), it.Origin})
			}
			return items, nil
		}
	}
	h.retrieve = wrap(d.Retrieve)
	h.retrieveKeys = wrap(d.RetrieveKeys)
	if h.retrieveKeys == nil {
		h.retrieveKeys = h.retrieve
	}
	if h.retrieve == nil && h.retrieveKeys != nil {
		// Only expected values can be found.
		h.retrieve = h.retrieveKeys
	}
}

// owns reports whether the key belongs to the descriptor.
func (h *handler) owns(key string) bool {
	return strings.HasPrefix(key, h.keys.Prefix) && (h.keys.Match == nil || h.keys.Match(key))
}

// The methods below accept nil, the handler of a property.

// equivalent reports whether the change from old to new needs no operation. equal compares like proto.Equal.
func (h *handler) equivalent(key string, old, new proto.Message, equal func(a, b proto.Message) bool) (bool, error) {
	if old == new {
		return true, nil
	}
	if h == nil || h.equivalentFn == nil {
		return equal(old, new), nil
	}
	return h.equivalentFn(key, old, new)
}

func (h *handler) recreate(key string, old, new proto.Message, meta any) (bool, error) {
	if h == nil {
		return false, nil
	}
	return h.recreateFn(key, old, new, meta)
}

func (h *handler) releases(key string, old, new proto.Message) bool {
	if h == nil || h.releasesFn == nil {
		return false
	}
	yes, err := h.releasesFn(key, old, new)
	return err == nil && yes
}

func (h *handler) validate(key string, v proto.Message) error {
	if h == nil {
		return nil
	}
	return h.validator(key, v)
}

// valid reports whether v is not nil and validates.
func (h *handler) valid(key string, v proto.Message) bool {
	return v != nil && h.validate(key, v) == nil
}

func (h *handler) derived(key string, v proto.Message) ([]KeyValue, error) {
	if h == nil || h.derivedFn == nil {
		return nil, nil
	}
	return h.derivedFn(key, v)
}

func (h *handler) dependencies(key string, v proto.Message) ([]Dependency, error) {
	if h == nil || h.depsFn == nil {
		return nil, nil
	}
	deps, err := h.depsFn(key, v)
	if err != nil {
		return nil, err
	}
	for i := range deps {
		any := deps[i].AnyOf
		if (deps[i].Key != "") == (len(any.KeyPrefixes) > 0 || any.KeySelector != nil) {
			return nil, NewInvalidValueError(fmt.Errorf("dependency %q of %s must have either a Key or an AnyOf", deps[i].Label, key))
		}
	}
	return deps, nil
}

// PanicError is the error of a callback that panicked.
type PanicError struct {
	Descriptor, Callback string
	Value                any
	Stack                []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("%s of descriptor %s panicked: %v\n%s", e.Callback, e.Descriptor, e.Value, e.Stack)
}

// caught converts a panic into a PanicError.
func caught(err *error, descriptor, callback string) {
	if p := recover(); p != nil {
		*err = &PanicError{descriptor, callback, p, debug.Stack()}
	}
}

func valueOf[V proto.Message](descriptor, key string, v proto.Message) (V, error) {
	value, ok := v.(V)
	if !ok {
		return value, fmt.Errorf("%s: value has type %T, but descriptor %s needs %T", key, v, descriptor, value)
	}
	return value, nil
}

func metaOf[M any](meta any) M {
	m, _ := meta.(M)
	return m
}

func isNil(v proto.Message) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
