package kvscheduler

import (
	"strings"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// oracle says what the southbound should hold, and in which states values
// should be, given what is requested and what is obtained. It knows nothing of the
// engine: it adds what can exist, alone or together, until nothing can be added.
type oracle struct {
	requested map[string]spec
	obtained  map[string]spec
}

// candidate is a value that might exist.
type candidate struct {
	deps []string
	base string
}

func (o oracle) expect() (exists map[string]spec, states map[string]pb.ValueState) {
	there := map[string]bool{}
	for key := range o.obtained {
		there[key] = true
	}
	for {
		// The greatest set of waiting values that support each other.
		next := o.waiting(there)
		for again := true; again; {
			again = false
			for key, c := range next {
				if !o.satisfied(c, there, next) {
					delete(next, key)
					again = true
				}
			}
		}
		if len(next) == 0 {
			break
		}
		for key := range next {
			there[key] = true
		}
	}
	exists, states = map[string]spec{}, map[string]pb.ValueState{}
	for key, sp := range o.obtained {
		exists[key] = sp
		states[key] = pb.ValueState_OBTAINED
	}
	for key, sp := range o.requested {
		states[key] = pb.ValueState_PENDING
		if !there[key] {
			continue
		}
		states[key] = pb.ValueState_CONFIGURED
		exists[key] = sp.itself()
		for _, it := range sp.Items {
			dk := derivedKey(key, it)
			states[dk] = pb.ValueState_PENDING
			if there[dk] {
				states[dk] = pb.ValueState_CONFIGURED
				if !isProperty(it) {
					exists[dk] = spec{}
				}
			}
		}
	}
	return exists, states
}

// waiting are the values that do not exist but are wanted: base values, and
// the derived values of those that exist.
func (o oracle) waiting(there map[string]bool) map[string]candidate {
	w := map[string]candidate{}
	for key, sp := range o.requested {
		if !there[key] {
			w[key] = candidate{deps: sp.Deps}
			continue
		}
		for _, it := range sp.Items {
			if dk := derivedKey(key, it); !there[dk] {
				deps := []string{}
				if !isProperty(it) {
					deps = itemDeps(it)
				}
				w[dk] = candidate{deps: deps, base: key}
			}
		}
	}
	return w
}

func matches(dep, key string) bool {
	if prefix, ok := strings.CutPrefix(dep, "any:"); ok {
		return strings.HasPrefix(key, prefix)
	}
	return dep == key
}

// satisfied reports whether each dependency is met by what is there or among.
func (o oracle) satisfied(c candidate, there map[string]bool, among map[string]candidate) bool {
	for _, dep := range c.deps {
		met := false
		for key := range there {
			met = met || matches(dep, key)
		}
		for key := range among {
			met = met || matches(dep, key)
		}
		if !met {
			return false
		}
	}
	return true
}
