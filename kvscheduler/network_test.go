package kvscheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// network is the southbound of the scenario scripts: a toy version of the network in docs/design/control-flows.md.
//
//	descriptor      key                                     needs                        derives
//	interface       interface/<name>                        af-packet: the host if.      addresses, unnumbered
//	(property)      interface-address/<name>/<address>
//	unnumbered      unnumbered/<name>                       any address of the lender
//	bridge-domain   bridge-domain/<name>                                                 bindings
//	bd-interface    bd-interface/<bridge domain>/<name>     the interface
//	route           route/<name>                            the outgoing interface
//	host-interface  linux/interface/host-name/<name>        only obtained
//	peer            peer/<name>                             the peers it names, any offer     offers
//	(property)      offer/<peer>/<name>
type network struct {
	exists map[string]*structpb.Struct
	origin map[string]Origin
	fail   map[string][]error
	calls  []string
}

type object = *structpb.Struct

func newNetwork() *network {
	return &network{exists: map[string]object{}, origin: map[string]Origin{}, fail: map[string][]error{}}
}

func field(v object, name string) string { return v.GetFields()[name].GetStringValue() }

func list(v object, name string) []string {
	var items []string
	for _, it := range v.GetFields()[name].GetListValue().GetValues() {
		items = append(items, it.GetStringValue())
	}
	return items
}

func (nw *network) call(op, key string) error {
	nw.calls = append(nw.calls, op+" "+key)
	if errs := nw.fail[op+" "+key]; len(errs) > 0 {
		nw.fail[op+" "+key] = errs[1:]
		return errs[0]
	}
	return nil
}

func (nw *network) crud(name, prefix string) Descriptor[object, NoMetadata] {
	return Descriptor[object, NoMetadata]{
		Name: name, Keys: KeySpace{Prefix: prefix}, NB: true,
		Create: func(_ context.Context, key string, v object) (NoMetadata, error) {
			if err := nw.call("CREATE", key); err != nil {
				return NoMetadata{}, err
			}
			nw.exists[key], nw.origin[key] = v, FromNB
			return NoMetadata{}, nil
		},
		Update: func(_ context.Context, key string, _, v object, m NoMetadata) (NoMetadata, error) {
			if err := nw.call("UPDATE", key); err != nil {
				return m, err
			}
			nw.exists[key] = v
			return m, nil
		},
		Delete: func(_ context.Context, key string, _ object, _ NoMetadata) error {
			if err := nw.call("DELETE", key); err != nil {
				return err
			}
			delete(nw.exists, key)
			return nil
		},
		Retrieve: func(context.Context, []Item[object, NoMetadata]) ([]Item[object, NoMetadata], error) {
			if err := nw.call("RETRIEVE", prefix+"*"); err != nil {
				return nil, err
			}
			return nw.read(prefix, nil), nil
		},
		RetrieveKeys: func(_ context.Context, expected []Item[object, NoMetadata]) ([]Item[object, NoMetadata], error) {
			keys := map[string]bool{}
			for _, it := range expected {
				keys[it.Key] = true
				if err := nw.call("RETRIEVE", it.Key); err != nil {
					return nil, err
				}
			}
			return nw.read(prefix, keys), nil
		},
	}
}

func (nw *network) read(prefix string, keys map[string]bool) []Item[object, NoMetadata] {
	var items []Item[object, NoMetadata]
	for _, key := range slices.Sorted(maps.Keys(nw.exists)) {
		if !strings.HasPrefix(key, prefix) || keys != nil && !keys[key] {
			continue
		}
		v := nw.exists[key]
		if strings.HasPrefix(key, "bridge-domain/") {
			v = nw.withBindings(key, v)
		}
		items = append(items, Item[object, NoMetadata]{Key: key, Value: v, Origin: nw.origin[key]})
	}
	return items
}

func (nw *network) withBindings(key string, v object) object {
	v = proto.Clone(v).(object)
	var ifs []*structpb.Value
	for _, k := range slices.Sorted(maps.Keys(nw.exists)) {
		if name, ok := strings.CutPrefix(k, "bd-interface/"+strings.TrimPrefix(key, "bridge-domain/")+"/"); ok {
			ifs = append(ifs, structpb.NewStringValue(name))
		}
	}
	v.Fields["interfaces"] = structpb.NewListValue(&structpb.ListValue{Values: ifs})
	return v
}

func without(v object, names ...string) object {
	c := proto.Clone(v).(object)
	for _, n := range names {
		delete(c.Fields, n)
	}
	return c
}

func (nw *network) register(s *Scheduler, name string) error {
	switch name {
	case "interface":
		d := nw.crud(name, "interface/")
		d.Validate = func(_ string, v object) error {
			if field(v, "type") == "" {
				return NewInvalidValueError(fmt.Errorf("an interface needs a type"), "type")
			}
			return nil
		}
		d.UpdateWithRecreate = func(_ string, old, new object, _ NoMetadata) bool {
			return field(old, "type") != field(new, "type") || field(old, "rx-ring") != field(new, "rx-ring")
		}
		d.Equivalent = func(_ string, old, new object) bool {
			return proto.Equal(without(old, "unnumbered-to"), without(new, "unnumbered-to"))
		}
		d.Dependencies = func(_ string, v object) []Dependency {
			if field(v, "type") == "AF_PACKET" {
				return []Dependency{{Label: "host-interface", Key: "linux/interface/host-name/" + field(v, "host")}}
			}
			return nil
		}
		d.DerivedValues = func(key string, v object) []KeyValue {
			name := strings.TrimPrefix(key, "interface/")
			var kvs []KeyValue
			for _, ip := range list(v, "ip") {
				kvs = append(kvs, KeyValue{Key: "interface-address/" + name + "/" + ip, Value: &structpb.Struct{}})
			}
			if lender := field(v, "unnumbered-to"); lender != "" {
				u, _ := structpb.NewStruct(map[string]any{"borrow-from": lender})
				kvs = append(kvs, KeyValue{Key: "unnumbered/" + name, Value: u})
			}
			return kvs
		}
		return Register(s, d)
	case "unnumbered":
		d := nw.crud(name, "unnumbered/")
		d.NB, d.Retrieve, d.RetrieveKeys = false, nil, nil
		d.Dependencies = func(_ string, v object) []Dependency {
			return []Dependency{{Label: "lender-has-address", AnyOf: AnyOf{
				KeyPrefixes: []string{"interface-address/" + field(v, "borrow-from") + "/"},
				KeySelector: func(key string) bool { return !strings.Contains(key, "fe80:") },
			}}}
		}
		return Register(s, d)
	case "bridge-domain":
		d := nw.crud(name, "bridge-domain/")
		d.Equivalent = func(_ string, old, new object) bool {
			return proto.Equal(without(old, "interfaces"), without(new, "interfaces"))
		}
		d.DerivedValues = func(key string, v object) []KeyValue {
			var kvs []KeyValue
			for _, i := range list(v, "interfaces") {
				kvs = append(kvs, KeyValue{Key: "bd-interface/" + strings.TrimPrefix(key, "bridge-domain/") + "/" + i, Value: &structpb.Struct{}})
			}
			return kvs
		}
		return Register(s, d)
	case "bd-interface":
		d := nw.crud(name, "bd-interface/")
		d.NB, d.Retrieve, d.RetrieveKeys = false, nil, nil
		d.Dependencies = func(key string, _ object) []Dependency {
			return []Dependency{{Label: "interface", Key: "interface/" + key[strings.LastIndex(key, "/")+1:]}}
		}
		return Register(s, d)
	case "route":
		d := nw.crud(name, "route/")
		d.RetrieveAfter = []string{"interface"}
		d.Dependencies = func(_ string, v object) []Dependency {
			return []Dependency{{Label: "interface", Key: "interface/" + field(v, "via")}}
		}
		return Register(s, d)
	case "host-interface":
		return Register(s, Descriptor[object, NoMetadata]{Name: name, Keys: KeySpace{Prefix: "linux/interface/host-name/"},
			Retrieve: func(context.Context, []Item[object, NoMetadata]) ([]Item[object, NoMetadata], error) {
				return nw.read("linux/interface/host-name/", nil), nw.call("RETRIEVE", "linux/interface/host-name/*")
			}})
	case "peer":
		d := nw.crud(name, "peer/")
		d.Dependencies = func(_ string, v object) []Dependency {
			var deps []Dependency
			for _, p := range list(v, "needs") {
				deps = append(deps, Dependency{Label: p, Key: "peer/" + p})
			}
			if offer := field(v, "needs-offer"); offer != "" {
				deps = append(deps, Dependency{Label: "offer", AnyOf: AnyOf{
					KeyPrefixes: []string{"offer/"}, KeySelector: func(key string) bool { return strings.HasSuffix(key, "/"+offer) }}})
			}
			return deps
		}
		d.DerivedValues = func(key string, v object) []KeyValue {
			var kvs []KeyValue
			for _, o := range list(v, "offers") {
				kvs = append(kvs, KeyValue{Key: "offer/" + strings.TrimPrefix(key, "peer/") + "/" + o, Value: &structpb.Struct{}})
			}
			return kvs
		}
		return Register(s, d)
	}
	return fmt.Errorf("unknown descriptor %q", name)
}
