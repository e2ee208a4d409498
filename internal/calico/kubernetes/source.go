package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

var (
	Blocks     = schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "ipamblocks"}
	Affinities = schema.GroupVersionResource{Group: "crd.projectcalico.org", Version: "v1", Resource: "blockaffinities"}
	Nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// errorLasts is how long an error of the API server is reported. Requests are retried at least that
// often.
const errorLasts = 40 * time.Second

// Source follows the API server.
type Source struct {
	Client dynamic.Interface
	// Families to follow: 4, 6 or both.
	Families []int
	// Interval is the minimum time between updates. Default 100 ms.
	Interval time.Duration
	Log      *slog.Logger

	mu     sync.Mutex
	state  *datastore.State
	synced bool
	err    error
	since  time.Time // of err
}

// Err returns why the state may be outdated, or nil.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil && time.Since(s.since) < errorLasts:
		return fmt.Errorf("the API server is not followed: %w", s.err)
	case !s.synced:
		return errors.New("the API server has not been read yet")
	}
	return nil
}

func (s *Source) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && (s.err == nil || s.err.Error() != err.Error()) {
		s.Log.Warn("Watching the API server failed; routes stay unchanged", "error", err)
	}
	s.err, s.since = err, time.Now()
}

// Run calls update with the state when all resources have been read and after changes, until ctx
// ends. update must not keep the state.
func (s *Source) Run(ctx context.Context, update func(*datastore.State)) {
	s.state = datastore.NewState()
	changed := make(chan struct{}, 1)
	change := func(apply func(*unstructured.Unstructured) bool) func(any) {
		return func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			u, ok := object.(*unstructured.Unstructured)
			if !ok {
				return
			}
			s.mu.Lock()
			done := apply(u)
			s.mu.Unlock()
			if done {
				signal(changed)
			}
		}
	}
	var following sync.WaitGroup
	defer following.Wait()
	var synced []cache.InformerSynced
	for _, r := range []struct {
		resource   schema.GroupVersionResource
		set, unset func(*unstructured.Unstructured) bool
	}{{Blocks, s.setBlock, s.remove}, {Affinities, s.setAffinity, s.remove}, {Nodes, s.setNode, s.removeNode}} {
		informer := kubeapi.NewInformer(s.Client.Resource(r.resource), &unstructured.Unstructured{}, nil)
		set := change(r.set)
		// Both fail only for started informers.
		_ = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) { s.setErr(fmt.Errorf("%s: %w", r.resource.Resource, err)) })
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: set, UpdateFunc: func(_, object any) { set(object) }, DeleteFunc: change(r.unset)})
		synced = append(synced, informer.HasSynced)
		following.Go(func() { informer.RunWithContext(ctx) })
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	s.setErr(nil)
	signal(changed)
	s.notify(ctx, changed, update)
}

func signal(changed chan struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// notify calls update for changes until ctx ends.
func (s *Source) notify(ctx context.Context, changed chan struct{}, update func(*datastore.State)) {
	interval := s.Interval
	if interval == 0 {
		interval = 100 * time.Millisecond
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		s.mu.Lock()
		s.synced = true
		state := s.state.Clone()
		s.mu.Unlock()
		update(state)
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

func key(u *unstructured.Unstructured) string { return u.GetKind() + "/" + u.GetName() }

func (s *Source) remove(u *unstructured.Unstructured) bool { return s.state.Delete(key(u)) }

func spec(u *unstructured.Unstructured) []byte {
	data, _ := json.Marshal(u.Object["spec"]) // it was JSON before
	return data
}

func (s *Source) setBlock(u *unstructured.Unstructured) bool {
	b, ok, err := datastore.DecodeBlock(spec(u))
	switch {
	case !ok:
		return s.state.SetProblem(key(u), err)
	case !s.has(b.CIDR.Addr().Is4()):
		return false
	}
	return s.state.SetBlock(key(u), b, err)
}

func (s *Source) setAffinity(u *unstructured.Unstructured) bool {
	a, ok, err := datastore.DecodeAffinitySpec(spec(u))
	switch {
	case !ok:
		return s.state.SetProblem(key(u), err)
	case !s.has(a.CIDR.Addr().Is4()):
		return false
	}
	return s.state.SetAffinity(key(u), a)
}

func (s *Source) has(ipv4 bool) bool {
	if ipv4 {
		return slices.Contains(s.Families, 4)
	}
	return slices.Contains(s.Families, 6)
}

func (s *Source) setNode(u *unstructured.Unstructured) (changed bool) {
	for _, family := range []int{4, 6} {
		k := fmt.Sprintf("%s/ipv%d", key(u), family)
		text := addressOf(u, family)
		if text == "" || !slices.Contains(s.Families, family) {
			changed = s.state.Delete(k) || changed
			continue
		}
		addr, err := datastore.ParsePeer(text)
		if err == nil && addr.Is4() != (family == 4) {
			err = fmt.Errorf("%s is no address of IPv%d", addr, family)
		}
		if err != nil {
			changed = s.state.SetProblem(k, err) || changed
			continue
		}
		changed = s.state.SetPeer(k, datastore.Peer{Host: u.GetName(), Addr: addr}) || changed
	}
	return changed
}

func (s *Source) removeNode(u *unstructured.Unstructured) (changed bool) {
	for _, family := range []int{4, 6} {
		changed = s.state.Delete(fmt.Sprintf("%s/ipv%d", key(u), family)) || changed
	}
	return changed
}

// Annotation returns the name of the annotation with a route agent's address.
func Annotation(family int) string { return fmt.Sprintf("contivpp.io/calico-peerip-ipv%d", family) }

// addressOf returns the address of a node, or "".
func addressOf(u *unstructured.Unstructured, family int) string {
	annotations := u.GetAnnotations()
	for _, name := range []string{Annotation(family), fmt.Sprintf("projectcalico.org/IPv%dAddress", family)} {
		if annotations[name] != "" {
			return annotations[name]
		}
	}
	addresses, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
	for _, a := range addresses {
		entry, _ := a.(map[string]any)
		text, _ := entry["address"].(string)
		if addr, err := datastore.ParsePeer(text); entry["type"] == "InternalIP" && err == nil && addr.Is4() == (family == 4) {
			return text
		}
	}
	return ""
}
