package store

import "context"

// Lister is a Broker that can list several prefixes at once.
type Lister interface {
	Broker
	// ListEach lists each prefix, possibly at different revisions.
	ListEach(ctx context.Context, prefixes []string) ([][]KV, error)
}

// ListEach uses Lister if the broker implements it; otherwise it lists one prefix after the other.
func ListEach(ctx context.Context, b Broker, prefixes []string) ([][]KV, error) {
	if lister, ok := b.(Lister); ok {
		return lister.ListEach(ctx, prefixes)
	}
	lists := make([][]KV, len(prefixes))
	for i, prefix := range prefixes {
		var err error
		if lists[i], _, err = b.List(ctx, prefix); err != nil {
			return nil, err
		}
	}
	return lists, nil
}
