package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Publisher keeps a node's addresses in annotations of its Node.
type Publisher struct {
	Client    dynamic.Interface
	Node      string
	Addresses []netip.Addr
	// Period is how often the annotations are put again, should somebody have removed them.
	Period time.Duration
	Log    *slog.Logger

	mu  sync.Mutex
	err error
}

// Err is why the addresses may not be published; nil: they are.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Run publishes until ctx ends. The annotations stay.
func (p *Publisher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.publish(ctx)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		if err != nil && (p.err == nil || p.err.Error() != err.Error()) {
			p.Log.Error("The address of this node cannot be published", "error", err)
		}
		p.err = err
		p.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(p.Period):
		}
	}
}

// publish changes the Node only if it is not as wanted.
func (p *Publisher) publish(ctx context.Context) error {
	nodes := p.Client.Resource(Nodes)
	node, err := nodes.Get(ctx, p.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Node %s: %w", p.Node, err)
	}
	have, want := node.GetAnnotations(), make(map[string]string)
	for _, a := range p.Addresses {
		family := 6
		if a.Is4() {
			family = 4
		}
		if have[Annotation(family)] != a.String() {
			want[Annotation(family)] = a.String()
		}
	}
	if len(want) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": want}})
	if err != nil {
		return err
	}
	if _, err := nodes.Patch(ctx, p.Node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating the Node %s: %w", p.Node, err)
	}
	return nil
}
