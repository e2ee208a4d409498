package store

import "context"

// Batcher is a Broker that can make several changes in one transaction.
type Batcher interface {
	Broker
	// Batch makes the changes in their order; either all of them or none. The
	// revisions in the changes are ignored.
	Batch(ctx context.Context, changes []Change) error
}

// Apply makes the changes in one transaction if the broker is a Batcher, and
// one after the other, up to the first error, if not.
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
