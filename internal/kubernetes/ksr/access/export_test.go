package access

import (
	"context"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
)

// Reconcile is the step of Run after a change.
func (k *Keeper) Reconcile(ctx context.Context, ids store.Broker) error { return k.reconcile(ctx, ids) }

// Forget is the step of Run after a failure.
func (k *Keeper) Forget() { k.forget() }

// SetLateAfter must be called before Run.
func (k *Keeper) SetLateAfter(d time.Duration) { k.lateAfter = d }
