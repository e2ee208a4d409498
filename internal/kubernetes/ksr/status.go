package ksr

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
)

// refuse records the reason why an object cannot be reflected, or nil.
func (r *Reflector) refuse(ref Ref, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if why == nil {
		delete(r.refused, ref)
		return
	}
	r.refused[ref] = why.Error()
}

func (r *Reflector) doubt(ref Ref, o Object, reflected bool) {
	text := ""
	if reflected {
		text = unreadable(o)
	}
	r.mu.Lock()
	before := r.doubtful[ref]
	if delete(r.doubtful, ref); text != "" {
		r.doubtful[ref] = text
	}
	r.mu.Unlock()
	if text != "" && text != before {
		r.log.Warn("Unreadable fields of an object ignored", "object", ref.String(), "fields", text)
	}
}

func (r *Reflector) problems() []string {
	var list []string
	if r.opts.Problems != nil {
		list = slices.Clone(r.opts.Problems())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ref := range sortedRefs(r.refused) {
		list = append(list, fmt.Sprintf("%v cannot be reflected, keeping its previous state: %s", ref, r.refused[ref]))
	}
	for _, ref := range sortedRefs(r.doubtful) {
		list = append(list, fmt.Sprintf("%v has fields that cannot be read and have no effect: %s", ref, r.doubtful[ref]))
	}
	return list
}

func sortedRefs(of map[Ref]string) []Ref {
	return slices.SortedFunc(maps.Keys(of), func(a, b Ref) int { return cmp.Compare(a.String(), b.String()) })
}

// publishStatus writes KSR's status on changes and at least every published.Heartbeat, so that a
// dead KSR is noticed.
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
