package kubernetes

import (
	"sync"

	"github.com/contiv/contiv/ksr"
	"k8s.io/client-go/tools/cache"
)

// pending has the changes to report: the last state of each changed object. Informers fill it and
// never wait.
type pending struct {
	mu sync.Mutex
	// objects by identity; nil: deleted.
	objects map[ksr.Ref]ksr.Object
	// wake has a token while there is something to take.
	wake chan struct{}
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

// take returns the pending changes and forgets them.
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

// handler records the events of an informer.
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
			// For an object that was deleted while the watch was interrupted, there is only a tombstone: its key,
			// and perhaps its last known state.
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
