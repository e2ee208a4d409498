package store

import "context"

// Lister is a Broker that can read several prefixes at once.
type Lister interface {
	Broker
	// ListEach returns what List does for each prefix. What it reads need not be of one revision.
	ListEach(ctx context.Context, prefixes []string) ([][]KV, error)
}

// ListEach reads prefixes at once if the broker is a Lister, and one after the other if not.
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
