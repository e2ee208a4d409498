package kvscheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
)

// W22: unimplemented values are configured when their descriptor is registered.
func TestW22UnimplementedValueIsConfiguredAfterRegistration(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	mustCommit(t, s, "a/1=x")
	wantState(t, s, "a/1", pb.ValueState_UNIMPLEMENTED)
	if e := s.ValueStatus("a/1").Value.Error; e != ErrNoDescriptor.Error() {
		t.Fatalf("reason: %q", e)
	}
	sb.register(s, "a", parts{prefix: "a/"})
	r := last(t, s)
	wantOps(t, r, "CREATE a/1 [WAS-UNIMPLEMENTED]")
	if r.Type != RetryUnimplOps {
		t.Fatal(r.Type)
	}
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	if e := s.ValueStatus("a/1").Value.Error; e != "" {
		t.Fatalf("error of a configured value: %q", e)
	}
}

func TestUnsupportedValueIsUnimplementedAndNotRetried(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", keyed: true})
	sb.failNext("CREATE a/1", fmt.Errorf("no module: %w", ErrUnsupported))
	_, err := commit(t, s, "a/1=x", WithDefaultRetry())
	if !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	wantState(t, s, "a/1", pb.ValueState_UNIMPLEMENTED)
	if e := s.ValueStatus("a/1").Value.Error; !strings.Contains(e, "no module") {
		t.Fatal(e)
	}
}

func TestInvalidValueIsCorrected(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", invalid: "bad"})
	_, err := commit(t, s, "a/1=bad", WithDefaultRetry())
	var iv *InvalidValueError
	if !errors.As(err, &iv) {
		t.Fatal(err)
	}
	wantState(t, s, "a/1", pb.ValueState_INVALID, "value")
	mustCommit(t, s, "a/1=good")
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
	wantCalls(t, sb, "CREATE a/1")
}

// W11: an invalid change keeps the last valid value and its dependents.
func TestW11InvalidUpdateKeepsTheLastValidValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", invalid: "bad"})
	sb.register(s, "b", parts{prefix: "b/", depsOf: func(string, string) []Dependency { return []Dependency{on("a", "a/1")} }})
	mustCommit(t, s, "a/1=good b/1=x")
	sb.take()
	if _, err := commit(t, s, "a/1=bad"); err == nil {
		t.Fatal("no error")
	}
	wantCalls(t, sb)
	wantState(t, s, "a/1", pb.ValueState_INVALID, "value")
	wantState(t, s, "b/1", pb.ValueState_CONFIGURED)
	mustCommit(t, s, "b/2=x a/1=better")
	wantCalls(t, sb, "CREATE b/2", "UPDATE a/1")
}

func TestPanicFailsItsValueOnly(t *testing.T) {
	for _, call := range []string{"CREATE a/1", "UPDATE a/1", "DELETE a/1"} {
		t.Run(call, func(t *testing.T) {
			s, sb := newScheduler(t), newSouthbound(t)
			sb.register(s, "a", parts{prefix: "a/"})
			if !strings.HasPrefix(call, "CREATE") {
				mustCommit(t, s, "a/1=x")
			}
			sb.hook = func(c string) {
				if c == call {
					panic("oops")
				}
			}
			values := "a/1=y b/1=x a/2=x"
			if strings.HasPrefix(call, "DELETE") {
				values = "a/1 a/2=x"
			}
			_, err := commit(t, s, values)
			var p *PanicError
			if !errors.As(err, &p) || p.Descriptor != "a" || !strings.Contains(string(p.Stack), "mock_test.go") {
				t.Fatal(err)
			}
			wantState(t, s, "a/1", pb.ValueState_FAILED)
			wantState(t, s, "a/2", pb.ValueState_CONFIGURED)
		})
	}
}

func TestPanicsOfPureCallbacksFailTheirValue(t *testing.T) {
	boom := func() { panic("oops") }
	for name, spoil := range map[string]func(d *Descriptor[text, int]){
		"Validate": func(d *Descriptor[text, int]) { d.Validate = func(string, text) error { boom(); return nil } },
		"Dependencies": func(d *Descriptor[text, int]) {
			d.Dependencies = func(string, text) []Dependency { boom(); return nil }
		},
		"DerivedValues": func(d *Descriptor[text, int]) { d.DerivedValues = func(string, text) []KeyValue { boom(); return nil } },
		"Equivalent":    func(d *Descriptor[text, int]) { d.Equivalent = func(string, text, text) bool { boom(); return false } },
		"UpdateWithRecreate": func(d *Descriptor[text, int]) {
			d.UpdateWithRecreate = func(string, text, text, int) bool { boom(); return false }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, sb := newScheduler(t), newSouthbound(t)
			d := sb.descriptor("a", parts{prefix: "a/"})
			spoil(&d)
			if err := Register(s, d); err != nil {
				t.Fatal(err)
			}
			_, err1 := commit(t, s, "a/1=x b/1=x")
			_, err2 := commit(t, s, "a/1=y")
			var p *PanicError
			if err := errors.Join(err1, err2); !errors.As(err, &p) || p.Callback != name {
				t.Fatal(err)
			}
			if st := s.ValueStatus("a/1").Value.State; st != pb.ValueState_FAILED {
				t.Fatal(st)
			}
			wantState(t, s, "b/1", pb.ValueState_UNIMPLEMENTED)
		})
	}
}

func TestHangingCallbackBlocksOnlyItsDescriptor(t *testing.T) {
	s, sb := newScheduler(t, func(o *Options) { o.CallTimeout = 30 * time.Millisecond }), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	sb.register(s, "b", parts{prefix: "b/"})
	release := make(chan struct{})
	returned := make(chan struct{})
	sb.hook = func(call string) {
		if call == "CREATE a/1" {
			<-release
			close(returned)
		}
	}
	_, err := commit(t, s, "a/1=x a/2=x b/1=x")
	if !errors.Is(err, ErrDeadline) || len(errorsOf(err)) != 2 {
		t.Fatal(err)
	}
	wantState(t, s, "a/1", pb.ValueState_FAILED)
	wantState(t, s, "a/2", pb.ValueState_FAILED)
	wantState(t, s, "b/1", pb.ValueState_CONFIGURED)
	close(release)
	<-returned
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) && s.ValueStatus("a/2").Value.State != pb.ValueState_CONFIGURED {
		_, _ = commit(t, s, "a/2=y") // until the abandoned call returns
	}
	wantState(t, s, "a/2", pb.ValueState_CONFIGURED)
}

func TestCallbackThatReturnsAtItsDeadlineFailsItsValue(t *testing.T) {
	s, sb := newScheduler(t, func(o *Options) { o.CallTimeout = 400 * time.Millisecond }), newSouthbound(t)
	d := sb.descriptor("a", parts{prefix: "a/"})
	d.Create = func(ctx context.Context, key string, v text) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if err := Register(s, d); err != nil {
		t.Fatal(err)
	}
	if _, err := commit(t, s, "a/1=x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// W16: registration detects conflicts.
func TestW16RegistrationConflictsNameBothSides(t *testing.T) {
	odd := func(key string) bool { return strings.HasSuffix(key, "1") }
	even := func(key string) bool { return strings.HasSuffix(key, "2") }
	s, sb := newScheduler(t), newSouthbound(t)
	reg := func(name string, ks KeySpace, after ...string) error {
		d := sb.descriptor(name, parts{prefix: ks.Prefix, after: after})
		d.Keys = ks
		return Register(s, d)
	}
	for _, ok := range []struct {
		name string
		ks   KeySpace
	}{
		{"a", KeySpace{Prefix: "a/"}},
		{"odd", KeySpace{Prefix: "m/", Match: odd, Example: "m/1"}},
		{"even", KeySpace{Prefix: "m/", Match: even, Example: "m/2"}},
	} {
		if err := reg(ok.name, ok.ks, "cyclic"); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []struct {
		name  string
		ks    KeySpace
		after []string
		want  string
	}{
		{"a", KeySpace{Prefix: "x/"}, nil, `descriptor a is already registered (for keys "a/", now for "x/")`},
		{"b", KeySpace{Prefix: "a/b/"}, nil, `key spaces of descriptors a ("a/") and b ("a/b/") overlap`},
		{"c", KeySpace{Prefix: "a"}, nil, `key spaces of descriptors a ("a/") and c ("a") overlap`},
		{"d", KeySpace{Prefix: "m/", Match: odd, Example: "m/11"}, nil, `key spaces of descriptors odd ("m/") and d ("m/") overlap`},
		{"e", KeySpace{Prefix: "e/", Match: odd}, nil, "descriptor e: KeySpace has Match but no Example"},
		{"f", KeySpace{Prefix: "f/", Match: odd, Example: "f/2"}, nil, "not in its own KeySpace"},
		{"cyclic", KeySpace{Prefix: "y/"}, []string{"a"}, "a after cyclic after a"},
		{"", KeySpace{Prefix: "z/"}, nil, "no Name"},
	} {
		if err := reg(bad.name, bad.ks, bad.after...); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: error %q, want %q", bad.name, err, bad.want)
		}
	}
	for key, want := range map[string]string{"a/x": "a", "m/1": "odd", "m/2": "even", "m/3": "", "b": "", "": ""} {
		got := ""
		if h := s.registry.Load().find(key); h != nil {
			got = h.name
		}
		if got != want {
			t.Errorf("descriptor of %q is %q, want %q", key, got, want)
		}
	}
}

func TestRevertUndoesExecutedOperations(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "if", parts{prefix: "if/", keyed: true})
	sb.register(s, "route", parts{prefix: "route/", keyed: true, depsOf: func(string, string) []Dependency { return []Dependency{on("if", "if/tap")} }})
	sb.failNext("CREATE route/1", errBoom)
	r, err := commit(t, s, "if/tap=x route/1=x", WithRevert(), WithDefaultRetry())
	if !errors.Is(err, errBoom) {
		t.Fatal(err)
	}
	wantCalls(t, sb, "CREATE if/tap", "CREATE route/1", "RETRIEVE route/1", "DELETE if/tap")
	wantOps(t, r, "CREATE if/tap", "CREATE route/1 [FAILED]", "DELETE route/1 [NOOP REVERT ALREADY-REMOVED]", "DELETE if/tap [REVERT]")
	wantState(t, s, "if/tap", pb.ValueState_NONEXISTENT)
	wantState(t, s, "route/1", pb.ValueState_NONEXISTENT)
}

// A failure of an unrelated PENDING value does not revert a transaction. The failure of a value that was
// available before does.
func TestRevertIgnoresUnrelatedPendingValues(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "if", parts{prefix: "if/", keyed: true, recreate: true})
	sb.register(s, "route", parts{prefix: "route/", keyed: true, depsOf: func(string, string) []Dependency { return []Dependency{on("if", "if/tap")} }})
	mustCommit(t, s, "route/1=x")
	sb.failNext("CREATE route/1", errBoom)
	_, err := commit(t, s, "if/tap=1", WithRevert())
	var te *TransactionError
	if !errors.As(err, &te) || te.Reverted {
		t.Fatal(err)
	}
	wantState(t, s, "if/tap", pb.ValueState_CONFIGURED)
	mustCommit(t, s, "route/1=y")
	wantState(t, s, "route/1", pb.ValueState_CONFIGURED)
	before := sb.content()
	sb.failNext("CREATE route/1", errBoom)
	if _, err = commit(t, s, "if/tap=2", WithRevert()); !errors.As(err, &te) || !te.Reverted {
		t.Fatal(err)
	}
	wantList(t, "southbound", sb.content(), before)
	wantState(t, s, "route/1", pb.ValueState_CONFIGURED)
}

func TestQueuedCommitIsWithdrawnWhenItsContextEnds(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	started, release := sb.blockCall("CREATE a/1")
	go func() { _, _ = s.NewTransaction().Put("a/1", val("x")).Commit(context.Background()) }()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.NewTransaction().Put("a/2", val("x")).Commit(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	settle(t, s)
	wantState(t, s, "a/2", pb.ValueState_NONEXISTENT)
}

func TestFullQueueAndClose(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	started, release := sb.blockCall("CREATE a/1")
	_, _ = s.NewTransaction().Put("a/1", val("x")).Commit(t.Context(), WithoutBlocking())
	<-started
	var err error
	for range queueCapacity {
		if _, err = s.NewTransaction().Put("a/2", val("x")).Commit(t.Context(), WithoutBlocking()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = s.NewTransaction().Commit(t.Context(), WithoutBlocking()); !errors.Is(err, ErrQueueFull) {
		t.Fatal(err)
	}
	if err = s.PushSBNotification(Notification{Key: "x"}); !errors.Is(err, ErrQueueFull) {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() { _, err := s.NewTransaction().Commit(context.Background()); waiting <- err }()
	closed := make(chan struct{})
	go func() { _ = s.Close(); close(closed) }()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	close(release)
	<-closed
	if _, err = s.NewTransaction().Commit(t.Context()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
}

// W8: readers see the state before a transaction until it ends.
func TestW8ReadersDoNotWaitForTheSouthbound(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	started, release := sb.blockCall("CREATE a/2")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.NewTransaction().Put("a/1", val("x")).Put("a/2", val("x")).Commit(context.Background())
	}()
	<-started
	wantState(t, s, "a/1", pb.ValueState_NONEXISTENT)
	if _, ok := s.Metadata("a", "a/1"); !ok {
		t.Error("metadata is not visible during the transaction")
	}
	close(release)
	<-done
	wantState(t, s, "a/1", pb.ValueState_CONFIGURED)
}

func TestMetadataIndexes(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	d := sb.descriptor("a", parts{prefix: "a/"})
	d.KeyLabel = func(key string) string { return strings.TrimPrefix(key, "a/") }
	d.MetadataIndexes = map[string]func(int) []string{"parity": func(m int) []string { return []string{[]string{"even", "odd"}[m%2]} }}
	if err := Register(s, d); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, "a/1=x a/2=x a/3=x")
	labels, err := s.MetadataLabels("a", "parity", "even")
	if err != nil {
		t.Fatal(err)
	}
	wantList(t, "labels", labels, []string{"1", "3"})
	mustCommit(t, s, "a/1")
	labels, _ = s.MetadataLabels("a", "parity", "even")
	wantList(t, "labels", labels, []string{"3"})
	if _, err := s.MetadataLabels("a", "none", ""); err == nil {
		t.Fatal("no error")
	}
}

// A chain of values, each depending on the previous one, with keys in several orders.
func TestLongChains(t *testing.T) {
	const n = 5_000
	for name, key := range map[string]func(i int) string{
		"in order": func(i int) string { return fmt.Sprintf("a/%06d", i) },
		"reversed": func(i int) string { return fmt.Sprintf("a/%06d", n-i) },
		"shuffled": func(i int) string { return fmt.Sprintf("a/%06d", i*7919%5003) },
	} {
		t.Run(name, func(t *testing.T) {
			s, sb := newScheduler(t), newSouthbound(t)
			deps := map[string][]Dependency{}
			txn := s.NewTransaction()
			for i := 1; i < n; i++ {
				deps[key(i)] = []Dependency{on("previous", key(i-1))}
				txn.Put(key(i), val("x"))
			}
			sb.register(s, "a", parts{prefix: "a/", deps: deps})
			must(t, txn)
			if calls := sb.take(); len(calls) != 0 {
				t.Fatalf("%d calls", len(calls))
			}
			must(t, s.NewTransaction().Put(key(0), val("x")))
			if calls := sb.take(); len(calls) != n || calls[n-1] != "CREATE "+key(n-1) {
				t.Fatalf("%d calls", len(calls))
			}
			must(t, s.NewTransaction().Delete(key(0)))
			if calls := sb.take(); len(calls) != n || calls[0] != "DELETE "+key(n-1) {
				t.Fatalf("%d calls", len(calls))
			}
		})
	}
}

// A callback that calls runtime.Goexit, as t.FailNow does, fails its value.
func TestCallbackThatEndsItsGoroutineFailsItsValue(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	sb.hook = func(call string) {
		if call == "CREATE a/1" {
			runtime.Goexit()
		}
	}
	if _, err := commit(t, s, "a/1=x a/2=x"); err == nil || !strings.Contains(err.Error(), "ended its goroutine") {
		t.Fatal(err)
	}
	wantState(t, s, "a/1", pb.ValueState_FAILED)
	wantState(t, s, "a/2", pb.ValueState_CONFIGURED)
}

func TestStalledReportsTheLackOfProgress(t *testing.T) {
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/"})
	if err := s.Stalled(0); err != nil {
		t.Errorf("idle: %v", err)
	}
	started, release := sb.blockCall("CREATE a/2")
	done := make(chan error)
	go func() {
		_, err := s.NewTransaction().Put("a/1", val("x")).Put("a/2", val("x")).Commit(t.Context())
		done <- err
	}()
	<-started
	if err := s.Stalled(time.Hour); err != nil {
		t.Errorf("at work: %v", err)
	}
	if err := s.Stalled(-1); err == nil || !strings.Contains(err.Error(), "no progress") {
		t.Errorf("stalled: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := s.Stalled(-1); err != nil {
		t.Errorf("idle again: %v", err)
	}
}

func errorsOf(err error) []*KeyError {
	var te *TransactionError
	if errors.As(err, &te) {
		return te.Errors
	}
	return nil
}
