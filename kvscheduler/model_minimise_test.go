package kvscheduler

import (
	"maps"
	"slices"
)

// minimiseModel removes everything from a violating sequence that is not needed for the violation.
func minimiseModel(seq modelSequence) modelSequence {
	for again := true; again; {
		again = false
		for _, smaller := range smallerModels(seq) {
			if violation, _ := playModel(smaller); violation != "" {
				seq, again = smaller, true
				break
			}
		}
	}
	return seq
}

// smallerModels returns the sequences with one element less, large elements first.
func smallerModels(seq modelSequence) (smaller []modelSequence) {
	with := func(change func(s *modelSequence)) {
		s := seq
		s.Steps = slices.Clone(seq.Steps)
		change(&s)
		smaller = append(smaller, s)
	}
	for i := range seq.Steps {
		with(func(s *modelSequence) { s.Steps = slices.Delete(s.Steps, i, i+1) })
	}
	if seq.Batch {
		with(func(s *modelSequence) { s.Batch = false })
	}
	if seq.Unknown {
		with(func(s *modelSequence) { s.Unknown = false })
	}
	for i, step := range seq.Steps {
		set := func(change func(st *modelStep)) {
			with(func(s *modelSequence) {
				st := step
				st.Put, st.Del = maps.Clone(step.Put), slices.Clone(step.Del)
				change(&st)
				s.Steps[i] = st
			})
		}
		for j := range step.Del {
			set(func(st *modelStep) { st.Del = slices.Delete(st.Del, j, j+1) })
		}
		for _, key := range slices.Sorted(maps.Keys(step.Put)) {
			set(func(st *modelStep) { delete(st.Put, key) })
			for _, v := range smallerValues(mustModelValue(step.Put[key])) {
				set(func(st *modelStep) { st.Put[key] = v.String() })
			}
		}
		if step.Retry {
			set(func(st *modelStep) { st.Retry = false })
		}
		if step.Revert {
			set(func(st *modelStep) { st.Revert = false })
		}
		if step.Plan {
			set(func(st *modelStep) { st.Plan = false })
		}
		if f := step.modelFault; step.Op == "fail" {
			if f.Late {
				set(func(st *modelStep) { st.Late = false })
			}
			if f.Panic || f.Hang {
				set(func(st *modelStep) { st.Panic, st.Hang = false, false })
			}
			if f.Times > 1 {
				set(func(st *modelStep) { st.Times-- })
			}
			if f.N > 1 {
				set(func(st *modelStep) { st.N-- })
			}
		}
	}
	return smaller
}

func smallerValues(v modelValue) (smaller []modelValue) {
	for i := range v.Needs {
		w := v
		w.Needs = slices.Delete(slices.Clone(v.Needs), i, i+1)
		smaller = append(smaller, w)
	}
	for i := range v.Parts {
		w := v
		w.Parts = slices.Delete(slices.Clone(v.Parts), i, i+1)
		smaller = append(smaller, w)
		for _, p := range smallerValues(v.Parts[i].Value) {
			w := v
			w.Parts = slices.Clone(v.Parts)
			w.Parts[i].Value = p
			smaller = append(smaller, w)
		}
	}
	for i := range v.Props {
		w := v
		w.Props = slices.Delete(slices.Clone(v.Props), i, i+1)
		smaller = append(smaller, w)
	}
	if v.R > 0 {
		w := v
		w.R = 0
		smaller = append(smaller, w)
	}
	if v.V > 0 {
		w := v
		w.V = 0
		smaller = append(smaller, w)
	}
	if v.Inv {
		w := v
		w.Inv = false
		smaller = append(smaller, w)
	}
	return smaller
}
