package etcd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
)

// claim returns a claim of a holder "host/life"; lives of one host are the same holder.
func claim(s *etcd.Store, holder string) *etcd.Claim { return claimFor(s, holder, time.Minute) }

// claimFor is claim with a TTL.
func claimFor(s *etcd.Store, holder string, ttl time.Duration) *etcd.Claim {
	host, _, _ := strings.Cut(holder, "/")
	mine := func(value []byte) bool { return strings.HasPrefix(string(value), host+"/") }
	return s.NewClaim("/claim", []byte(holder), mine, ttl)
}

// wantHolder checks the holder returned by Hold; "" is the claim itself.
func wantHolder(t *testing.T, what string, c *etcd.Claim, want string) {
	t.Helper()
	other, err := c.Hold(context.Background())
	if err != nil || string(other) != want {
		t.Errorf("%s: got holder %q, %v, want %q", what, other, err, want)
	}
}

func TestClaim(t *testing.T) {
	s := etcdtest.Start(t).Store()
	first, second := claim(s, "a/1"), claim(s, "b/1")
	wantHolder(t, "no holder", first, "")
	wantHolder(t, "first has it", second, "a/1")
	wantHolder(t, "it is kept", first, "")

	again := claim(s, "a/2")
	wantHolder(t, "next life of the holder", again, "")
	wantHolder(t, "former life of the holder, should it live", first, "a/2")
	wantHolder(t, "next life has it", second, "a/2")

	if err := second.Release(context.Background()); err != nil {
		t.Error(err)
	}
	wantHolder(t, "released by another claim", again, "")
	if err := s.Delete(context.Background(), "/claim"); err != nil {
		t.Fatal(err)
	}
	wantHolder(t, "it was deleted", again, "")
	if err := again.Release(context.Background()); err != nil {
		t.Error(err)
	}
	wantHolder(t, "it was released", second, "")
}

// The key expires with a dead holder.
func TestClaimOfTheDead(t *testing.T) {
	s := etcdtest.Start(t).Store()
	dead, living := claimFor(s, "a/1", 2*time.Second), claim(s, "b/1")
	wantHolder(t, "it lives", dead, "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes, err := s.Watch(ctx, 0, "/claim")
	if err != nil {
		t.Fatal(err)
	}
	wantHolder(t, "its lease has not ended", living, "a/1")
	if batch := <-changes; len(batch.Changes) != 1 || !batch.Changes[0].Deleted {
		t.Fatalf("got %v", batch)
	}
	wantHolder(t, "its lease has ended", living, "")
	wantHolder(t, "it was not dead after all", dead, "b/1")
}

// A key that is not a claim is taken at once.
func TestClaimOfKeyWithoutLease(t *testing.T) {
	s := etcdtest.Start(t).Store()
	for _, value := range []string{"", "garbage", "b/1"} {
		if err := s.Put(t.Context(), "/claim", []byte(value)); err != nil {
			t.Fatal(err)
		}
		c := claim(s, "a/1")
		wantHolder(t, "another's value without lease", c, "")
		if err := s.Put(t.Context(), "/claim", []byte(value)); err != nil {
			t.Fatal(err)
		}
		wantHolder(t, "overwritten", c, "")
		wantHolder(t, "it is held", claim(s, "c/1"), "a/1")
		if err := c.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A holder takes the key again after etcd lost its data.
func TestClaimInAWipedEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	s := server.Store()
	c := claim(s, "a/1")
	wantHolder(t, "before", c, "")
	server.Stop()
	server.Wipe()
	server.Start()
	for begin := time.Now(); ; {
		other, err := c.Hold(context.Background())
		if err == nil {
			if other != nil {
				t.Errorf("got holder %s", other)
			}
			break
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal(err)
		}
	}
	if _, held, err := s.Get(context.Background(), "/claim"); !held || err != nil {
		t.Errorf("the key is not there: %v", err)
	}
}
