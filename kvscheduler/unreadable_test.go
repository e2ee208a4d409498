package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// fragile returns a mock descriptor. Its reads fail or panic if an expected value starts with "bad" or
// "panic". It can create such values.
func fragile(sb *southbound, reads *int, broken *bool) Descriptor[text, int] {
	d := sb.descriptor("a", parts{prefix: "a/", keyed: true, retrieve: true, invalid: "invalid"})
	check := func(read func(context.Context, []Item[text, int]) ([]Item[text, int], error)) func(context.Context, []Item[text, int]) ([]Item[text, int], error) {
		return func(ctx context.Context, expected []Item[text, int]) ([]Item[text, int], error) {
			*reads++
			if *broken {
				return nil, errBoom
			}
			for _, it := range expected {
				switch v := it.Value.Value; {
				case strings.HasPrefix(v, "bad"), v == "invalid":
					return nil, fmt.Errorf("%s: %w", it.Key, errBoom)
				case strings.HasPrefix(v, "panic"):
					panic(it.Key)
				}
			}
			return read(ctx, expected)
		}
	}
	d.Retrieve, d.RetrieveKeys = check(d.Retrieve), check(d.RetrieveKeys)
	return d
}

func TestUnreadableValueFailsAlone(t *testing.T) {
	const n = 500
	for _, resync := range []ResyncType{FullResync, DownstreamResync} {
		t.Run(resync.String(), func(t *testing.T) {
			s, sb := newScheduler(t), newSouthbound(t)
			reads, broken := 0, false
			if err := Register(s, fragile(sb, &reads, &broken)); err != nil {
				t.Fatal(err)
			}
			content := func() *Transaction {
				txn := s.NewTransaction()
				for i := range n {
					txn.Put(fmt.Sprintf("a/%03d", i), val("x"))
				}
				return txn.Put("a/007", val("bad")).Put("a/300", val("panic")).Put("a/301", val("bad"))
			}
			must(t, content())
			sb.unset("a/400") // one value to repair
			sb.take()
			txn := s.NewTransaction()
			if resync == FullResync {
				txn = content()
			}
			reads = 0
			_, err := txn.Commit(t.Context(), WithResync(resync))
			if !errors.Is(err, errBoom) {
				t.Errorf("resync: %v", err)
			}
			for _, e := range errorsOf(err) {
				if e.Key != "a/007" && e.Key != "a/300" && e.Key != "a/301" {
					t.Errorf("failed: %v", e)
				}
			}
			if reads > 80 {
				t.Errorf("read %d times", reads)
			}
			for i := range n {
				key := fmt.Sprintf("a/%03d", i)
				state := pb.ValueState_CONFIGURED
				if i == 7 || i == 300 || i == 301 {
					state = pb.ValueState_FAILED
					if text := s.ValueStatus(key).GetValue().GetError(); !strings.Contains(text, "cannot be read back: ") || !strings.Contains(text, key) {
						t.Errorf("%s: reason %q", key, text)
					}
				}
				wantState(t, s, key, state)
			}
			var repaired []string
			for _, call := range sb.take() {
				if !strings.HasPrefix(call, "RETRIEVE") {
					repaired = append(repaired, call)
				}
			}
			wantList(t, "operations", repaired, []string{"CREATE a/400"})

			// A corrected value can be read again, and a bad one can be deleted.
			must(t, s.NewTransaction().Delete("a/007").Delete("a/300").Put("a/301", val("good")))
			wantState(t, s, "a/301", pb.ValueState_CONFIGURED)
			if s.ValueStatus("a/007").GetValue().GetState() != pb.ValueState_NONEXISTENT || len(sb.content()) != n-2 {
				t.Errorf("not removed: %d values", len(sb.content()))
			}
			must(t, s.NewTransaction(), WithResync(DownstreamResync))
		})
	}
}

// The first resync after a restart knows only the requested values.
func TestFirstResyncWithUnreadableValues(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	reads, broken := 0, false
	if err := Register(s, fragile(sb, &reads, &broken)); err != nil {
		t.Fatal(err)
	}
	sb.set("a/1", "x")
	sb.set("a/3", "old")
	_, err := commit(t, s, "a/1=x a/2=bad a/3=invalid a/4=x", WithResync(FullResync))
	if err == nil {
		t.Error("no error")
	}
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	wantState(t, s, "a/2", pb.ValueState_FAILED)
	wantState(t, s, "a/3", pb.ValueState_INVALID, "value") // INVALID values are not expected, so the read succeeds
	wantState(t, s, "a/4", pb.ValueState_CONFIGURED)
	wantList(t, "southbound", sb.content(), []string{"a/1=x", "a/3=old", "a/4=x"})
	diffs, err := s.Verify(t.Context(), "a/1", "a/2")
	if !errors.Is(err, errBoom) || len(diffs) != 1 || diffs[0].Key != "a/2" {
		t.Errorf("verify: %v, %v", diffs, err)
	}
}

// If the southbound cannot be read at all, no value fails.
func TestUnreadableSouthboundFailsNoValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	reads, broken := 0, false
	if err := Register(s, fragile(sb, &reads, &broken)); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, "a/1=x a/2=x")
	broken = true
	sb.take()
	if _, err := s.NewTransaction().Commit(t.Context(), WithResync(DownstreamResync)); !errors.Is(err, errBoom) {
		t.Errorf("resync: %v", err)
	}
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	if reads > 2 {
		t.Errorf("read %d times", reads)
	}
	wantCalls(t, sb)
}

// A retry reads unreadable values before any operation.
func TestRetryReadsUnreadableValuesFirst(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	d := sb.descriptor("a", parts{prefix: "a/", keyed: true, retrieve: true})
	var failures atomic.Int32
	read, readKeys := d.Retrieve, d.RetrieveKeys
	fails := func(expected []Item[text, int]) error {
		if len(expected) > 0 && failures.Add(-1) >= 0 {
			return errBoom
		}
		return nil
	}
	d.Retrieve = func(ctx context.Context, expected []Item[text, int]) ([]Item[text, int], error) {
		if err := fails(expected); err != nil {
			return nil, err
		}
		return read(ctx, expected)
	}
	d.RetrieveKeys = func(ctx context.Context, expected []Item[text, int]) ([]Item[text, int], error) {
		if err := fails(expected); err != nil {
			return nil, err
		}
		return readKeys(ctx, expected)
	}
	if err := Register(s, d); err != nil {
		t.Fatal(err)
	}
	retry := WithRetry(Retry{Period: time.Millisecond})
	mustCommit(t, s, "a/1=x", retry)
	sb.take()
	failures.Store(6) // two reads each: the resync, reading back, and the first retry
	seq, err := s.NewTransaction().Commit(t.Context(), WithResync(DownstreamResync), retry)
	if !errors.Is(err, errBoom) {
		t.Errorf("resync: %v", err)
	}
	awaitTxn(t, s, seq+2)
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	for _, call := range sb.take() {
		if !strings.HasPrefix(call, "RETRIEVE") {
			t.Error(call)
		}
	}
}
