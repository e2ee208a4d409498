package nodesync_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

type claimedKey struct {
	mu       sync.Mutex
	other    []byte
	err      error
	released bool

	name  string
	value []byte
	mine  func([]byte) bool
}

func (k *claimedKey) Hold(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.other, k.err
}

func (k *claimedKey) Release(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.released = true
	return k.err
}

func (k *claimedKey) set(other string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.other, k.err = nil, err
	if other != "" {
		k.other = []byte(other)
	}
}

func newClaim(t *testing.T) (*nodesync.Claim, *claimedKey) {
	t.Helper()
	k := &claimedKey{}
	c, err := nodesync.NewClaim("node1", plugintest.Logger(), func(name string, value []byte, mine func([]byte) bool, _ time.Duration) nodesync.ClaimedKey {
		k.name, k.value, k.mine = name, value, mine
		return k
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, k
}

const otherAgent = `{"hostName":"h2","addresses":["10.9.9.9/24"],"bootID":"b","netns":7,"pid":3}`

func claimed(t *testing.T, test func(t *testing.T, c *nodesync.Claim, k *claimedKey, admitted chan error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, k := newClaim(t)
		ctx, cancel := context.WithCancel(t.Context())
		admitted := make(chan error, 1)
		var running sync.WaitGroup
		running.Go(func() {
			time.Sleep(time.Millisecond)
			running.Go(func() { c.Run(ctx) })
			admitted <- c.Admitted(ctx, 5*time.Second)
		})
		test(t, c, k, admitted)
		cancel()
		running.Wait()
		if !k.released {
			t.Error("the claim was not given up")
		}
	})
}

func wantAdmitted(t *testing.T, what string, admitted chan error, want bool) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-admitted:
		if err != nil || !want {
			t.Errorf("%s: admitted, %v", what, err)
		}
	default:
		if want {
			t.Errorf("%s: not admitted", what)
		}
	}
}

func wantTaken(t *testing.T, what string, c *nodesync.Claim, text string) {
	t.Helper()
	err := c.Err()
	if (err != nil) != (text != "") || err != nil && (!errors.Is(err, nodesync.ErrNameTaken) || !strings.Contains(err.Error(), text)) {
		t.Errorf("%s: got %v, want %q", what, err, text)
	}
}

func TestFreeName(t *testing.T) {
	claimed(t, func(t *testing.T, c *nodesync.Claim, _ *claimedKey, admitted chan error) {
		time.Sleep(2 * time.Millisecond)
		wantAdmitted(t, "at once", admitted, true)
		wantTaken(t, "at once", c, "")
	})
}

func TestNameOfALivingAgent(t *testing.T) {
	claimed(t, func(t *testing.T, c *nodesync.Claim, k *claimedKey, admitted chan error) {
		k.set(otherAgent, nil)
		time.Sleep(time.Hour)
		wantAdmitted(t, "while the other one lives", admitted, false)
		wantTaken(t, "while the other one lives", c, "running on host h2 with 10.9.9.9/24 (process 3 ")
		wantTaken(t, "while the other one lives", c, "--node-name")
		k.set("", errors.New("etcd is away"))
		time.Sleep(time.Hour)
		wantAdmitted(t, "while it is unknown", admitted, false)
		k.set("from the future", nil)
		time.Sleep(6 * time.Second)
		wantTaken(t, "another version has it", c, "from the future")
		k.set("", nil)
		time.Sleep(6 * time.Second)
		wantAdmitted(t, "when the other one has ended", admitted, true)
		wantTaken(t, "when the other one has ended", c, "")
	})
}

func TestNameWithoutEtcd(t *testing.T) {
	claimed(t, func(t *testing.T, c *nodesync.Claim, k *claimedKey, admitted chan error) {
		k.set("", errors.New("etcd is away"))
		time.Sleep(4 * time.Second)
		wantAdmitted(t, "etcd may still answer", admitted, false)
		time.Sleep(2 * time.Second)
		wantAdmitted(t, "etcd does not answer", admitted, true)
		wantTaken(t, "etcd does not answer", c, "")
		k.set(otherAgent, nil)
		time.Sleep(2 * time.Second)
		wantTaken(t, "another one was faster", c, "host h2")
	})
}

func TestPlaceOfAnAgent(t *testing.T) {
	_, k := newClaim(t)
	if k.name != "/vnf-agent/node1/check/agent" {
		t.Errorf("key %s", k.name)
	}
	for name, c := range map[string]struct {
		change func(*nodesync.Holder)
		mine   bool
	}{
		"next process":       {func(h *nodesync.Holder) { h.PID++; h.Started = h.Started.Add(time.Second) }, true},
		"other addresses":    {func(h *nodesync.Holder) { h.Addresses, h.HostName = nil, "x" }, true},
		"machine anew":       {func(h *nodesync.Holder) { h.BootID = "x" }, false},
		"clone of a machine": {func(h *nodesync.Holder) { h.BootID = "x"; h.PID++ }, false},
		"other namespace":    {func(h *nodesync.Holder) { h.NetNS++ }, false},
	} {
		var h nodesync.Holder
		if err := json.Unmarshal(k.value, &h); err != nil {
			t.Fatal(err)
		}
		c.change(&h)
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if k.mine(data) != c.mine {
			t.Errorf("%s: mine is %v", name, !c.mine)
		}
	}
	if k.mine([]byte("x")) {
		t.Error("an unreadable claim counts as own")
	}
}

func TestNothingIsPublishedUnderAnothersName(t *testing.T) {
	c, k := newClaim(t)
	k.set(otherAgent, nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	var db store.Broker = memory.New()
	n := nodesync.New("node1", db, nodesync.Self{Claim: c.Err}, nil, plugintest.Logger())
	v := vppNode(1, "node1", "192.168.16.9/24")
	if err := n.Resync(ctx, &controller.DBResync{}, state(v), 1, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	for c.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, db, 1); got != nil {
		t.Errorf("published %v", got)
	}
	cancel()
	running.Wait()
}
