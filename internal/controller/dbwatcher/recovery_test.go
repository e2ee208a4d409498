package dbwatcher_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
)

const (
	own     = ksr + "allocatedIDs/1"
	other   = ksr + "allocatedIDs/2"
	nodeKey = ksr + "k8s/node/node1"
	marker  = ksr + "status/gauges"

	everything = "resync node=k8s/node/node1 pod=k8s/pod/web/namespace/default vppnode=allocatedIDs/1 vppnode=allocatedIDs/2"
)

func (r *rig) reflect() {
	r.t.Helper()
	r.put(r.remote, nodeKey, `{"name":"node1"}`)
	r.put(r.remote, podKey, podValue(""))
	r.put(r.remote, marker, `{}`)
}

// stopped fills the database and lets an agent mirror it and end.
func (r *rig) stopped() {
	r.t.Helper()
	r.reflect()
	r.put(r.remote, own, `{"id":1,"name":"node1"}`)
	r.put(r.remote, other, `{"id":2,"name":"node2"}`)
	r.start()
	r.want(everything)
	r.stop()
}

func (r *rig) stop() {
	r.watcher.Close()
	r.watcher = nil
}

// wantLost checks that the agent works with the mirror and reports the reason.
func (r *rig) wantLost(reason string) {
	r.t.Helper()
	r.want("local " + everything)
	if err := r.watcher.Connected(); err == nil || !strings.Contains(err.Error(), reason) {
		r.t.Errorf("got %v, want %s", err, reason)
	}
}

// A database that lost its data while the agent was down is ignored until KSR has refilled it.
func TestWipedBeforeTheStart(t *testing.T) {
	for name, filler := range map[string]int{"and empty": 0, "and again as old as before": 20} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.stopped()
				r.remote.Wipe()
				for i := range filler {
					r.put(r.remote, fmt.Sprintf("%sk8s/namespace/n%d", ksr, i), fmt.Sprintf(`{"name":"n%d"}`, i))
				}
				r.start()
				r.wantLost("lost its data")
				time.Sleep(time.Hour)
				r.want()
				r.wantMirror(own, other, nodeKey, podKey)
				if kv, _, _ := r.remote.Get(r.ctx, own); !strings.Contains(string(kv.Value), "node1") {
					t.Errorf("the agent has not written its own value again: %s", kv.Value)
				}
				for i := range filler {
					r.delete(fmt.Sprintf("%sk8s/namespace/n%d", ksr, i))
				}
				r.reflect()
				time.Sleep(3 * time.Second)
				r.want()
				r.put(r.remote, other, `{"id":2,"name":"node2"}`)
				time.Sleep(3 * time.Second)
				r.want(everything)
				if err := r.watcher.Connected(); err != nil {
					t.Error(err)
				}
				r.delete(podKey)
				r.want("delete pod=k8s/pod/web/namespace/default")
			})
		})
	}
}

// A mirror that lacks changes is not completed from a database that lost its data.
func TestIncompleteMirrorOutlivesTheData(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.start()
		r.want(everything)
		r.local.SetAvailable(false)
		r.put(r.remote, ksr+"k8s/namespace/default", `{"name":"default"}`)
		r.want("add namespace=k8s/namespace/default")
		r.remote.Wipe()
		time.Sleep(10 * time.Second)
		r.local.SetAvailable(true)
		time.Sleep(time.Minute)
		r.wantMirror(own, other, nodeKey, podKey)
		r.stop()
		r.start()
		r.wantLost("lost its data")
	})
}

// An etcd with authentication that lost its data denies access until KSR has restored the users.
func TestWipedAndDenied(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.Wipe()
		r.remote.SetDenied(true)
		r.start()
		r.wantLost("lost its data (its revision went from")
		time.Sleep(time.Hour)
		r.want()
		r.remote.SetDenied(false)
		for i := range 20 { // its revision is higher than before
			r.put(r.remote, fmt.Sprintf("%sk8s/namespace/n%d", ksr, i), fmt.Sprintf(`{"name":"n%d"}`, i))
			r.delete(fmt.Sprintf("%sk8s/namespace/n%d", ksr, i))
		}
		r.reflect()
		time.Sleep(5 * time.Second)
		r.want()
		r.put(r.remote, other, `{"id":2,"name":"node2"}`)
		time.Sleep(9 * time.Second)
		r.want(everything)
		if err := r.watcher.Connected(); err != nil {
			t.Error(err)
		}
	})
}

// The same for a running agent.
func TestWipedAndDeniedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.start()
		r.want(everything)
		r.remote.Wipe()
		r.remote.SetDenied(true)
		time.Sleep(time.Minute)
		r.want()
		if err := r.watcher.Connected(); err == nil || !strings.Contains(err.Error(), "lost its data") {
			t.Errorf("got %v", err)
		}
	})
}

// If the database has all of its data, a denied node reports the denial.
func TestDenied(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.SetDenied(true)
		r.start()
		time.Sleep(r.config.DelayLocalResync.Std() + time.Second)
		r.wantLost("permission denied")
	})
}

// KSR restores the IDs of nodes before their agents get access: a node without addresses counts as
// missing, and an agent restores its own.
func TestNodesWithoutAddresses(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.reflect()
		r.put(r.remote, own, `{"id":1,"name":"node1","ip_addresses":["192.168.16.1/24"]}`)
		r.put(r.remote, other, `{"id":2,"name":"node2","ip_addresses":["192.168.16.2/24"]}`)
		r.start()
		r.want(everything)
		r.remote.Wipe()
		r.remote.SetDenied(true)
		time.Sleep(5 * time.Second)
		r.remote.SetDenied(false)
		r.put(r.remote, own, `{"id":1,"name":"node1"}`)
		r.put(r.remote, other, `{"id":2,"name":"node2"}`)
		r.reflect()
		time.Sleep(20 * time.Second)
		r.want()
		if kv, _, _ := r.remote.Get(r.ctx, own); !strings.Contains(string(kv.Value), "192.168.16.1/24") {
			t.Errorf("the agent has not put its addresses back: %s", kv.Value)
		}
		r.put(r.remote, other, `{"id":2,"name":"node2","ip_addresses":["192.168.16.22/24"]}`)
		time.Sleep(9 * time.Second)
		r.want(everything)
	})
}

// Entries missing 30 s after KSR has refilled the database are deleted.
func TestEntriesNotRestoredByKSRAreDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.Wipe()
		r.start()
		r.wantLost("revision went from")
		time.Sleep(time.Minute)
		r.reflect()
		time.Sleep(29 * time.Second)
		r.want()
		time.Sleep(3 * time.Second)
		r.want("resync node=k8s/node/node1 pod=k8s/pod/web/namespace/default vppnode=allocatedIDs/1")
		r.wantMirror(own, nodeKey, podKey)
	})
}

func TestWipedTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.Wipe()
		r.start()
		r.wantLost("lost its data")
		r.reflect()
		time.Sleep(20 * time.Second)
		r.remote.Wipe()
		time.Sleep(time.Minute)
		r.want()
		r.put(r.remote, other, `{"id":2,"name":"node2"}`)
		r.reflect()
		time.Sleep(3 * time.Second)
		r.want(everything)
	})
}

func TestRestartDuringARecovery(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.Wipe()
		for range 3 {
			r.start()
			r.wantLost("lost its data")
			time.Sleep(40 * time.Second)
			r.want()
			r.stop()
		}
	})
}

func TestLostDatabaseTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.config.LostDatabaseTimeout = config.Duration(5 * time.Minute)
		r.stopped()
		r.remote.Wipe()
		r.start()
		r.wantLost("lost its data")
		time.Sleep(299 * time.Second)
		r.want()
		time.Sleep(2 * time.Second)
		r.want("resync vppnode=allocatedIDs/1") // its own
	})
}

// A database restored from a backup with the same content is used at once.
func TestAnotherDatabaseThatLacksNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.SetIdentity("restored")
		r.start()
		r.want(everything)
	})
}

func TestAnotherDatabase(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.remote.SetIdentity("restored")
		r.delete(other)
		r.start()
		r.wantLost("it is the etcd cluster restored and was memory")
	})
}

func TestOwnValueIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.delete(own)
		r.start()
		r.wantLost("values written by this node are missing")
		time.Sleep(2 * time.Second)
		r.want(everything)
	})
}

// The ID of a deleted node is free.
func TestOwnValueIsGoneWithTheNode(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.delete(own)
		r.delete(nodeKey)
		r.start()
		r.want("resync pod=k8s/pod/web/namespace/default vppnode=allocatedIDs/2")
	})
}

// Changes while the agent was down are not mistaken for a loss.
func TestChangesBeforeTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.delete(podKey)
		r.delete(other)
		r.start()
		r.want("resync node=k8s/node/node1 vppnode=allocatedIDs/1")
	})
}

// A mirror without an origin (of an older version) is preferred to an empty database; without KSR,
// for 30 s.
func TestEmptyDatabaseAndAMirrorWithoutOrigin(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.local, podKey, podValue(""))
		r.put(r.remote, node+"check/agent", `{}`)
		r.start()
		r.want("local resync pod=k8s/pod/web/namespace/default")
		time.Sleep(29 * time.Second)
		r.want()
		time.Sleep(3 * time.Second)
		r.want("resync")
	})
}

// The agent notices when KSR refills the database.
func TestKSRFillsTheDatabaseLater(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.start()
		r.want("resync")
		r.reflect()
		r.want("add node=k8s/node/node1", "add pod=k8s/pod/web/namespace/default")
		r.stop()
		r.remote.Wipe()
		r.start()
		r.want("local resync node=k8s/node/node1 pod=k8s/pod/web/namespace/default")
		time.Sleep(time.Hour)
		r.want()
		r.put(r.remote, nodeKey, `{"name":"node1"}`)
		synctest.Wait()
		r.reflect()
		time.Sleep(3 * time.Second)
		r.want("resync node=k8s/node/node1 pod=k8s/pod/web/namespace/default")
	})
}

// Without Kubernetes, an empty database is normal.
func TestNothingIsLeftWithoutKubernetes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.start()
		r.want("resync ext=config/vpp/v2/interfaces/tap1")
		r.stop()
		r.delete(ifKey)
		r.put(r.remote, node+"check/agent", `{}`) // of this node, but not configuration
		r.start()
		r.want("resync")
	})
}
