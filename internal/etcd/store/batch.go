package store

import "context"

// Batcher is a Broker with transactions.
type Batcher interface {
	Broker
	// Batch applies the changes in order, all or nothing. Revisions in the changes are ignored.
	Batch(ctx context.Context, changes []Change) error
}

// Apply applies the changes in one transaction if the broker is a Batcher; otherwise one by one up
// to the first error.
func Apply(ctx context.Context, b Broker, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	if batcher, ok := b.(Batcher); ok {
		return batcher.Batch(ctx, changes)
	}
	for _, c := range changes {
		var err error
		if c.Deleted {
			err = b.Delete(ctx, c.Key)
		} else {
			err = b.Put(ctx, c.Key, c.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
