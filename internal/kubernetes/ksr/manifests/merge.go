package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/lib/dirwatch"
)

type merger struct {
	log *slog.Logger
	// reported holds the last reported objects, or nil.
	reported      map[ksr.Ref]ksr.Object
	complete, any bool
	duplicates    []Problem
	namedKinds    map[string]bool
}

func newMerger(log *slog.Logger) *merger {
	return &merger{log: log, reported: make(map[ksr.Ref]ksr.Object), namedKinds: make(map[string]bool)}
}

func (m *merger) parse(name string, text []byte) (parsed, error) {
	p := parse(name, text)
	for _, kind := range p.ignored {
		if !m.namedKinds[kind] {
			m.namedKinds[kind] = true
			m.log.Info("objects of this kind are ignored", "kind", kind, "file", name)
		}
	}
	if len(p.errors) > 0 {
		return parsed{}, p.errors
	}
	for _, w := range p.warnings {
		m.log.Warn("manifest: " + w.String())
	}
	return p, nil
}

func (m *merger) changes(s dirwatch.Snapshot[parsed]) (changes ksr.Changes, changed bool) {
	merged := m.merge(s)
	changes.Complete = s.Usable()
	for ref, object := range merged {
		if m.reported[ref] != object {
			changes.Set = append(changes.Set, object)
		}
	}
	for ref := range m.reported {
		if merged[ref] == nil {
			changes.Deleted = append(changes.Deleted, ref)
		}
	}
	changed = !m.any || changes.Complete != m.complete || len(changes.Set)+len(changes.Deleted) > 0
	m.reported, m.complete, m.any = merged, changes.Complete, true
	return changes, changed
}

// merge merges the objects of all files. Of objects with the same identity, the last one wins, as
// if the files were applied in the order of their names.
func (m *merger) merge(s dirwatch.Snapshot[parsed]) map[ksr.Ref]ksr.Object {
	merged := make(map[ksr.Ref]ksr.Object)
	origin := make(map[ksr.Ref]Problem)
	var duplicates []Problem
	for _, file := range s.Files {
		for _, o := range file.Content.objects {
			ref, _ := ksr.RefOf(o.object)
			if other, twice := origin[ref]; twice {
				duplicates = append(duplicates, Problem{other.File, other.Document,
					fmt.Sprintf("%s is overridden by document %d of %s: remove one of them", ref, o.document, file.Name)})
			}
			merged[ref] = o.object
			origin[ref] = Problem{File: file.Name, Document: o.document}
		}
	}
	for _, d := range duplicates {
		if !slices.Contains(m.duplicates, d) {
			m.log.Warn("manifest: " + d.String())
		}
	}
	m.duplicates = duplicates
	return merged
}

func (m *merger) problems(s dirwatch.Snapshot[parsed]) []Problem {
	out := slices.Clone(m.duplicates)
	if s.Err != nil {
		out = append(out, Problem{Reason: s.Err.Error()})
	}
	for _, file := range s.Files {
		var ps problems
		switch {
		case errors.As(file.Err, &ps):
			out = append(out, ps...)
		case file.Err != nil:
			out = append(out, Problem{File: file.Name, Reason: file.Err.Error()})
		}
		out = append(out, file.Content.warnings...)
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Document, b.Document))
	})
	return out
}
