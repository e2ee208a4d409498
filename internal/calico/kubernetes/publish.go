package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Annotations is a publish.Place: annotations of a Node with its addresses. They stay when the
// agent ends.
type Annotations struct {
	Client    dynamic.Interface
	Node      string
	Addresses []netip.Addr
}

// Put changes the Node only if the annotations differ.
func (p Annotations) Put(ctx context.Context) error {
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
