package ksr

import (
	"bytes"
	"context"
	"fmt"

	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/models"
)

const formatKey = models.KSRPrefix + kubestate.FormatKey

// claimFormat records our format in the store. It returns kubestate.ErrNewer if a newer version
// has written an unknown format. Then nothing may be written.
func (w *writer) claimFormat(ctx context.Context) error {
	ctx, cancel := w.call(ctx)
	defer cancel()
	kv, found, err := w.store.Get(ctx, formatKey)
	if err != nil {
		return fmt.Errorf("read the format of the store: %w", err)
	}
	if found {
		if err := kubestate.CheckFormat(kv.Value); err != nil {
			return err
		}
		if bytes.Equal(kv.Value, kubestate.FormatValue()) {
			return nil
		}
	}
	if err := w.store.Put(ctx, formatKey, kubestate.FormatValue()); err != nil {
		return fmt.Errorf("write %s: %w", formatKey, err)
	}
	return nil
}
