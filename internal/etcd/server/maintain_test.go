package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func fill(t *testing.T, c *clientv3.Client, key func(int) string) {
	t.Helper()
	value := strings.Repeat("x", 256<<10)
	for i := range 1000 {
		if _, err := c.Put(t.Context(), key(i), value); err != nil {
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the quota holds nothing up")
}

func TestSpaceOfOldRevisionsIsGivenBack(t *testing.T) {
	opts := testOptions(t)
	opts.Quota = 16 << 20
	s := start(t, opts)
	c := client(t, s.Endpoint())
	fill(t, c, func(int) string { return "/same" })
	if full, err := s.makeSpace(t.Context(), opts.Quota, -1); full || err != nil {
		t.Fatalf("full: %v, %v", full, err)
	}
	put(t, s.Endpoint(), "/other", "v")
	if size := s.etcd.Server.Backend().Size(); size > opts.Quota/2 {
		t.Errorf("%d bytes remain", size)
	}
}

func TestFullUntilSomethingIsDeleted(t *testing.T) {
	opts := testOptions(t)
	opts.Quota = 16 << 20
	s := start(t, opts)
	c := client(t, s.Endpoint())
	fill(t, c, func(i int) string { return fmt.Sprintf("/k/%03d", i) })
	for range 2 {
		if full, err := s.makeSpace(t.Context(), opts.Quota, -1); !full || err != nil {
			t.Fatalf("full: %v, %v", full, err)
		}
	}
	if _, err := c.Put(t.Context(), "/other", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("a write: %v", err)
	}
	if _, err := c.Delete(t.Context(), "/k/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if full, err := s.makeSpace(t.Context(), opts.Quota, -1); full || err != nil {
		t.Fatalf("full: %v, %v", full, err)
	}
	put(t, s.Endpoint(), "/other", "v")
}

func TestFreePagesAreGivenBackBeforeEtcdIsFull(t *testing.T) {
	opts := testOptions(t)
	opts.Quota = 16 << 20
	s := start(t, opts)
	c := client(t, s.Endpoint())
	value := strings.Repeat("x", 256<<10)
	for range 40 {
		if _, err := c.Put(t.Context(), "/same", value); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.forgetRevisions(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := s.etcd.Server
	for server.Backend().SizeInUse() > server.Backend().Size()/4 { // pages become free when later writes are on disk
		put(t, s.Endpoint(), "/other", "v")
		server.Backend().ForceCommit()
	}
	before := server.Backend().Size()
	if _, err := s.makeSpace(t.Context(), opts.Quota, -1); err != nil {
		t.Fatal(err)
	}
	if after := s.etcd.Server.Backend().Size(); after > before/2 {
		t.Errorf("from %d to %d bytes", before, after)
	}
	if alarms := s.etcd.Server.Alarms(); len(alarms) > 0 {
		t.Errorf("alarms: %v", alarms)
	}
}
