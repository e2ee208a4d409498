package cache

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/policy"
)

// Operator of a requirement.
type Operator int

// Operators as in Kubernetes. An equality is In with one value.
const (
	In Operator = iota
	NotIn
	Exists
	DoesNotExist
)

// Requirement is a condition on one label.
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string // sorted; set for In and NotIn
}

func (r Requirement) matches(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case In:
		return ok && slices.Contains(r.Values, value)
	case NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case Exists:
		return ok
	}
	return !ok
}

func (r Requirement) String() string {
	switch r.Operator {
	case In:
		if len(r.Values) == 1 {
			return r.Key + "=" + r.Values[0]
		}
		return fmt.Sprintf("%s in (%s)", r.Key, strings.Join(r.Values, ","))
	case NotIn:
		return fmt.Sprintf("%s notin (%s)", r.Key, strings.Join(r.Values, ","))
	case Exists:
		return r.Key
	}
	return "!" + r.Key
}

// Selector lists requirements that must all be met. An empty selector matches everything. Equal
// selectors have the same text.
type Selector []Requirement

// SelectorOf translates a reflected selector, which must not be nil. With an error, the result
// lacks the invalid expressions. KSR reflects an unknown operator as In without values.
func SelectorOf(s *policy.Policy_LabelSelector) (out Selector, err error) {
	for _, l := range s.GetMatchLabel() {
		out = append(out, Requirement{Key: l.GetKey(), Values: []string{l.GetValue()}})
	}
	for i, e := range s.GetMatchExpression() {
		r := Requirement{Key: e.GetKey(), Operator: Operator(e.GetOperator())}
		switch {
		case r.Operator < In || r.Operator > DoesNotExist, r.Operator <= NotIn && len(e.GetValue()) == 0:
			err = cmp.Or(err, fmt.Errorf("matchExpressions[%d] of the key %.64q has an unknown operator, or no values", i, e.GetKey()))
			continue
		case r.Operator <= NotIn:
			r.Values = slices.Compact(slices.Sorted(slices.Values(e.GetValue())))
		case len(e.GetValue()) > 0:
			err = cmp.Or(err, fmt.Errorf("matchExpressions[%d] of the key %.64q has values, which its operator has not", i, e.GetKey()))
			continue
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Requirement) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(out, func(a, b Requirement) bool { return a.String() == b.String() }), err
}

// Matches reports whether labels meet all requirements.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s {
		if !r.matches(labels) {
			return false
		}
	}
	return true
}

// String returns kubectl's syntax.
func (s Selector) String() string {
	texts := make([]string, len(s))
	for i, r := range s {
		texts[i] = r.String()
	}
	return strings.Join(texts, ",")
}

// anchor returns a label of all matching objects, as "key=value" or "key", or "".
func (s Selector) anchor() string {
	best := ""
	for _, r := range s {
		switch {
		case r.Operator == In && len(r.Values) == 1:
			return r.Key + "=" + r.Values[0]
		case r.Operator == In || r.Operator == Exists:
			best = r.Key
		}
	}
	return best
}

// Scope is the set of namespaces of a selection.
type Scope struct {
	// If Namespace is empty, Namespaces selects the namespaces.
	Namespace  string
	Namespaces Selector
}

// String describes the scope uniquely.
func (s Scope) String() string {
	switch {
	case s.Namespace != "":
		return "namespace " + s.Namespace
	case len(s.Namespaces) == 0:
		return "all namespaces"
	}
	return "namespaces " + s.Namespaces.String()
}
