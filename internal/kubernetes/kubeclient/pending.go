package kubeclient

import (
	"sync"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"k8s.io/client-go/tools/cache"
)

// pending holds the last state of each changed object to report. Informers never wait for it.
type pending struct {
	mu      sync.Mutex
	objects map[ksr.Ref]ksr.Object
	wake    chan struct{}
}

func newPending() *pending {
	return &pending{objects: make(map[ksr.Ref]ksr.Object), wake: make(chan struct{}, 1)}
}

func (p *pending) note(ref ksr.Ref, o ksr.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects[ref] = o
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *pending) take() (c ksr.Changes) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref, o := range p.objects {
		if o == nil {
			c.Deleted = append(c.Deleted, ref)
		} else {
			c.Set = append(c.Set, o)
		}
	}
	p.objects = make(map[ksr.Ref]ksr.Object)
	return c
}

func (p *pending) handler(kind ksr.Kind) cache.ResourceEventHandler {
	set := func(object any) {
		o, ok := object.(ksr.Object)
		if !ok {
			return
		}
		if ref, ok := ksr.RefOf(o); ok {
			p.note(ref, o)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, object any) { set(object) },
		DeleteFunc: func(object any) {
			// An object deleted while the watch was interrupted has a tombstone: its key, and
			// perhaps its last state.
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			if err != nil {
				return
			}
			namespace, name, err := cache.SplitMetaNamespaceKey(key)
			if err != nil {
				return
			}
			p.note(ksr.Ref{Kind: kind, Namespace: namespace, Name: name}, nil)
		},
	}
}
