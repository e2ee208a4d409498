package ksr

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/health/published"
)

// refuse records the reason why an object cannot be reflected; nil: it can.
func (r *Reflector) refuse(ref Ref, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why == nil {
		delete(r.refused, ref)
		return
	}
	r.refused[ref] = why.Error()
}

// problems returns the problems of the source, and the objects that cannot be reflected.
func (r *Reflector) problems() []string {
	var list []string
	if r.opts.Problems != nil {
		list = slices.Clone(r.opts.Problems())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	refs := make([]Ref, 0, len(r.refused))
	for ref := range r.refused {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.String(), b.String()) })
	for _, ref := range refs {
		list = append(list, fmt.Sprintf("%v cannot be reflected, its former state is kept: %s", ref, r.refused[ref]))
	}
	return list
}

// publishStatus writes KSR's state to the store when it changes, and at least every
// published.Heartbeat, so that others notice when KSR is gone.
func (w *writer) publishStatus(ctx context.Context) error {
	problems := w.problems()
	first := min(len(problems), published.MaxProblems)
	status := published.KSR{Instance: w.opts.Instance, Version: w.opts.Version, Problems: problems[:first], More: len(problems) - first, Time: time.Now()}
	_, status.Complete = w.wanted.count()
	same := status.Complete == w.told.Complete && status.More == w.told.More && slices.Equal(status.Problems, w.told.Problems)
	if same && status.Time.Sub(w.told.Time) < published.Heartbeat {
		return nil
	}
	data, err := json.Marshal(status)
	if err != nil {
		return err
	}
	if err := w.store.Put(ctx, published.KSRKey, data); err != nil {
		return fmt.Errorf("publish the status: %w", err)
	}
	w.told = status
	return nil
}
