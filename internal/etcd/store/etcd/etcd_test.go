package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/etcd/store/storetest"
	"github.com/contiv/contiv/internal/lib/config"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	server := etcdtest.Start(t)
	connect := func(t *testing.T) *etcd.Store {
		s := server.Store()
		if err := s.DeletePrefix(context.Background(), ""); err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.TestBroker(t, func(t *testing.T) store.Broker { return connect(t) })
	storetest.TestWatchable(t, func(t *testing.T) store.Watchable { return connect(t) })
}

func TestListReadsPagesOfOneRevision(t *testing.T) {
	s, ctx := etcdtest.Start(t).Store(), context.Background()
	const txns, size = 51, 100
	for i := range txns {
		var ops []clientv3.Op
		for j := range size {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/k/%05d", i*size+j), ""))
		}
		if _, err := s.Client().Txn(ctx).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	kvs, revision, err := s.List(ctx, "/k/")
	if err != nil || len(kvs) != txns*size || kvs[txns*size-1].Key != "/k/05099" || revision != txns+1 {
		t.Errorf("%d pairs at revision %d, %v", len(kvs), revision, err)
	}
}

// ListEach sends one request per hundred prefixes.
func TestListsOfManyPrefixes(t *testing.T) {
	s, ctx := etcdtest.Start(t).Store(), context.Background()
	var prefixes []string
	for i := range 250 {
		prefix := fmt.Sprintf("/n%d/check/", i)
		prefixes = append(prefixes, prefix)
		if err := errors.Join(s.Put(ctx, prefix+"agent", []byte(prefix)), s.Put(ctx, fmt.Sprintf("/n%d/config/x", i), nil)); err != nil {
			t.Fatal(err)
		}
	}
	lists, err := s.ListEach(ctx, append(prefixes, "/none/"))
	if err != nil || len(lists) != 251 || len(lists[250]) != 0 {
		t.Fatal(len(lists), err)
	}
	for i, list := range lists[:250] {
		if len(list) != 1 || list[0].Key != prefixes[i]+"agent" || string(list[0].Value) != prefixes[i] || list[0].Revision == 0 {
			t.Errorf("%s: %v", prefixes[i], list)
		}
	}
	if lists, err := s.ListEach(ctx, nil); err != nil || len(lists) != 0 {
		t.Error(lists, err)
	}
}

func TestWatchOfCompactedRevision(t *testing.T) {
	server := etcdtest.Start(t)
	s, ctx := server.Store(), context.Background()
	_, revision, err := s.List(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	s.Put(ctx, "/a", nil)
	s.Put(ctx, "/a", nil)
	server.Compact(s)
	ch, err := s.Watch(ctx, revision, "/")
	if err == nil {
		err = (<-ch).Err
	}
	if !errors.Is(err, store.ErrCompacted) {
		t.Errorf("got %v", err)
	}
}

func TestOutage(t *testing.T) {
	server := etcdtest.Start(t)
	s, ctx := server.Store(), context.Background()
	ch, err := s.Watch(ctx, 0, "/")
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if b := <-ch; !errors.Is(b.Err, store.ErrUnavailable) || b.Err.Error() != "etcd: out of reach: the connection was lost" {
		t.Errorf("watch: %v", b)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, _, err := s.Get(short, "/a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	begin := time.Now()
	if _, err := s.Watch(ctx, 0, "/"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("new watch: %v", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("new watch: %v until the error", took)
	}

	server.Start()
	for {
		if _, _, err = s.Get(ctx, "/a"); err == nil {
			break
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("etcd is back, and still: %v", err)
		}
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	if _, err := s.Watch(ctx, 0, "/"); err != nil {
		t.Errorf("watch after the outage: %v", err)
	}
}

func TestFormsOfEndpoints(t *testing.T) {
	for _, endpoint := range []string{"x:1", "http://x:1", "https://x:1/", "https://[fd00::1]:32379", "unix:///x", "unixs:///x", "unix:x"} {
		s, err := etcd.New(etcd.Config{Endpoints: []string{endpoint}})
		if err != nil {
			t.Errorf("%s: %v", endpoint, err)
			continue
		}
		s.Close()
	}
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]etcd.Config{
		"no endpoints":    {},
		"missing CA":      {Endpoints: []string{"x:1"}, CAFile: "/does/not/exist"},
		"key without":     {Endpoints: []string{"x:1"}, KeyFile: "/does/not/exist"},
		"contradiction":   {Endpoints: []string{"x:1"}, CAFile: "/x", InsecureTransport: true},
		"unset variable":  {Endpoints: []string{"http://${CONTIV_UNSET}:1"}},
		"unknown scheme":  {Endpoints: []string{"ftp://x:1"}},
		"no port":         {Endpoints: []string{"192.168.16.1"}},
		"URL without":     {Endpoints: []string{"http://x:1", "https://[fd00::1]"}},
		"no host":         {Endpoints: []string{"http://:32379"}},
		"negative":        {Endpoints: []string{"x:1"}, DialTimeout: config.Duration(-1)},
		"too many probes": {Endpoints: []string{"x:1"}, KeepAliveTime: config.Duration(5 * time.Second)},
	} {
		if s, err := etcd.New(cfg); err == nil {
			s.Close()
			if cfg.CheckFiles() != nil {
				continue
			}
			t.Errorf("%s: no error", name)
		}
	}
}

// The default timeouts allow for an etcd with a delay of 1.2 s.
func TestDistantEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	s, err := etcd.New(etcd.Config{Endpoints: []string{server.Distant(600 * time.Millisecond)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes, err := s.Watch(ctx, 0, "/")
	if err != nil {
		t.Fatalf("watch, which is the first call: %v", err)
	}
	if err := s.Put(ctx, "/a", nil); err != nil {
		t.Fatal(err)
	}
	if b := <-changes; b.Err != nil || len(b.Changes) != 1 {
		t.Errorf("watched %v", b)
	}
}
