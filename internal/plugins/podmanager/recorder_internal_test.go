package podmanager

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
)

func TestWritesOfManyADDsAtOnce(t *testing.T) {
	const adds = crowd + 2
	for _, tt := range []struct {
		name  string
		then  func(r *recorder, queued []func())
		after time.Duration
	}{
		{"nothing more comes", func(*recorder, []func()) {}, gathering},
		{"the others come", func(r *recorder, queued []func()) {
			for i, queued := range queued {
				r.write(t.Context(), false, change(10+i))
				queued()
			}
		}, 0},
		{"few are left", func(_ *recorder, queued []func()) {
			for _, queued := range queued[1:] {
				queued()
			}
		}, gathering},
		{"the others fail", func(_ *recorder, queued []func()) {
			for _, queued := range queued {
				queued()
			}
		}, 0},
		{"the event loop waits", func(r *recorder, _ []func()) { r.write(t.Context(), true, change(99)) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memory.New()
				r := &recorder{Broker: disk, due: make(chan struct{}, 1)}
				var queued []func()
				for range adds {
					queued = append(queued, r.expect())
				}
				written := func() int64 {
					synctest.Wait()
					_, revision, err := disk.List(context.Background(), "")
					if err != nil {
						t.Fatal(err)
					}
					return revision
				}
				before := written()
				first := r.write(t.Context(), false, change(0))
				queued[0]()
				if n := written() - before; n != 0 {
					t.Fatalf("%d writes before the others came", n)
				}
				tt.then(r, queued[1:])
				if tt.after > 0 {
					time.Sleep(tt.after - time.Nanosecond)
					if n := written() - before; n != 0 {
						t.Errorf("%d writes too early", n)
					}
					time.Sleep(time.Nanosecond)
				}
				if n := written() - before; n != 1 {
					t.Errorf("%d writes, want 1", n)
				}
				if err := <-first; err != nil {
					t.Error(err)
				}
				time.Sleep(gathering)
			})
		})
	}
}

func TestWriteOfSingleADD(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{Broker: memory.New(), due: make(chan struct{}, 1)}
		defer r.expect()()
		begin := time.Now()
		if err := <-r.write(t.Context(), false, change(0)); err != nil || time.Since(begin) > 0 {
			t.Errorf("the write took %v: %v", time.Since(begin), err)
		}
	})
}

func change(i int) store.Change {
	return store.Change{KV: store.KV{Key: fmt.Sprint(StorePrefix, i), Value: []byte("{}")}}
}
