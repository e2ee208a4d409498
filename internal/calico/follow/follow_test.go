package follow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watcher follows a store and records the blocks and peers of each update.
type watcher struct {
	t       *testing.T
	f       *Follower
	updates chan string
}

func start(t *testing.T, db store.Watchable, o Options) *watcher {
	t.Helper()
	tree, err := datastore.ParseTree(datastore.DefaultTree)
	if err != nil {
		t.Fatal(err)
	}
	o.Store, o.Prefixes, o.Log = db, tree.Prefixes(), slog.New(slog.DiscardHandler)
	o.Interval, o.Retry = time.Millisecond, time.Millisecond
	o.Plausible = func(s *datastore.State) bool { return len(s.Blocks) > 0 }
	o.Apply = func(s *datastore.State, key string, value []byte) bool { return s.Apply(tree, key, value) }
	w := &watcher{t: t, f: New(o), updates: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.f.Run(ctx, func(s *datastore.State) { w.updates <- describe(s) }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

func describe(s *datastore.State) string {
	var words []string
	for _, b := range s.Blocks {
		words = append(words, b.Host)
	}
	for _, p := range s.Peers {
		words = append(words, p.Addr.String())
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// want waits for an update with the text. Other updates may precede it.
func (w *watcher) want(text string) {
	w.t.Helper()
	var got []string
	for {
		select {
		case u := <-w.updates:
			if u == text {
				return
			}
			got = append(got, u)
		case <-time.After(time.Minute):
			w.t.Fatalf("no update %q, but %q", text, got)
		}
	}
}

// quiet checks that all updates had the text.
func (w *watcher) quiet(text string) {
	w.t.Helper()
	for {
		select {
		case u := <-w.updates:
			if u != text {
				w.t.Errorf("update %q", u)
			}
		default:
			return
		}
	}
}

// wantErr waits for an error with the text; "": none.
func (w *watcher) wantErr(text string) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := w.f.Err()
		if text == "" && err == nil || text != "" && err != nil && strings.Contains(err.Error(), text) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("error %v, want %q", err, text)
		}
	}
}

func putBlock(t *testing.T, db store.Broker, n int, host string) {
	t.Helper()
	value := fmt.Sprintf(`{"cidr":"10.0.0.%d/26","affinity":"host:%s"}`, n*64, host)
	put(t, db, blockKey(n), value)
}

func blockKey(n int) string {
	return fmt.Sprintf("/calico/ipam/v2/assignment/ipv4/block/10.0.0.%d-26", n*64)
}

func put(t *testing.T, db store.Broker, key, value string) {
	t.Helper()
	if err := db.Put(t.Context(), key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func del(t *testing.T, db store.Broker, key string) {
	t.Helper()
	if err := db.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func TestChanges(t *testing.T) {
	db := memory.New()
	putBlock(t, db, 0, "a")
	w := start(t, db, Options{})
	w.want("a")
	putBlock(t, db, 1, "b")
	w.want("a b")
	put(t, db, datastore.PeerKey("b", 4), "192.0.2.2")
	w.want("192.0.2.2 a b")
	del(t, db, blockKey(0))
	w.want("192.0.2.2 b")
	w.wantErr("")
	// Irrelevant changes cause no update.
	put(t, db, "/calico/ipam/v2/assignment/config", "{}")
	put(t, db, blockKey(1), `{"cidr":"10.0.0.64/26","affinity":"host:b","allocations":[null]}`)
	putBlock(t, db, 2, "c")
	w.want("192.0.2.2 b c")
	if lists, watches := w.f.Counters.Lists.Load(), w.f.Counters.Watches.Load(); lists != 3 || watches != 3 {
		t.Errorf("%d lists and %d watches, want 3 and 3", lists, watches)
	}
}

// While the database is unreachable nothing changes. Deletions, and changes lost by a compaction,
// are found later.
func TestDatabaseComesBack(t *testing.T) {
	server := etcdtest.Start(t)
	db := server.Store()
	putBlock(t, db, 0, "a")
	putBlock(t, db, 1, "b")
	w := start(t, db, Options{})
	w.want("a b")
	server.Stop()
	w.wantErr("etcd")
	w.quiet("")
	server.Start()
	w.wantErr("")
	del(t, db, blockKey(1))
	server.Compact(db)
	w.want("a")
}

// The data of a database that lost data is used; missing data is kept until it has blocks again,
// plus a while.
func TestWipedDatabase(t *testing.T) {
	server := etcdtest.Start(t)
	db := server.Store()
	for n, host := range []string{"a", "b", "c"} {
		putBlock(t, db, n, host)
	}
	put(t, db, datastore.PeerKey("b", 4), "192.0.2.2")
	w := start(t, db, Options{Hold: 500 * time.Millisecond})
	w.want("192.0.2.2 a b c")
	server.Stop()
	w.wantErr("etcd")
	server.Wipe()
	server.Start()
	put(t, db, datastore.PeerKey("b", 4), "192.0.2.3")
	w.want("192.0.2.3 a b c")
	putBlock(t, db, 0, "d")
	w.want("192.0.2.3 b c d")
	w.want("192.0.2.3 d")
}

// A restart while the database is empty does not remove all routes.
func TestNothingAtTheStart(t *testing.T) {
	db := memory.New()
	put(t, db, datastore.PeerKey("b", 4), "192.0.2.2")
	w := start(t, db, Options{})
	w.wantErr("no block below /calico/ipam/v2/assignment/")
	w.quiet("")
	putBlock(t, db, 0, "a")
	w.want("192.0.2.2 a")
	w.wantErr("")
	// From then on, the deletion of the last block counts.
	del(t, db, blockKey(0))
	w.want("192.0.2.2")
}

// Concurrent changes become one update.
func TestManyChangesAreOneUpdate(t *testing.T) {
	db := memory.New()
	putBlock(t, db, 0, "first")
	w := start(t, db, Options{})
	w.want("first")
	var changes []store.Change
	for n := range 4 {
		value := fmt.Sprintf(`{"cidr":"10.0.0.%d/26","affinity":"host:x"}`, n*64)
		changes = append(changes, store.Change{KV: store.KV{Key: blockKey(n), Value: []byte(value)}})
	}
	if err := db.Batch(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if got := <-w.updates; got != "x x x x" {
		t.Errorf("update %q", got)
	}
}
