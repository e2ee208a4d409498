package dbwatcher_test

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStandaloneReadsTheNodeOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.standalone = true
		r.put(r.remote, podKey, podValue("10.1.1.2"))
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.start()
		r.want("resync ext=config/vpp/v2/interfaces/tap1")
		if _, mirrored, _ := r.local.Get(r.ctx, podKey); mirrored {
			t.Error("the state of Kubernetes is mirrored")
		}
		r.put(r.remote, podKey, podValue("10.1.1.3"))
		r.want()
		r.delete(ifKey)
		r.want("external from db -config/vpp/v2/interfaces/tap1")
	})
}

func TestStandaloneStartsWithoutDatabaseAndMirror(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.standalone = true
		r.remote.SetAvailable(false)
		r.start()
		time.Sleep(r.config.DelayLocalResync.Std())
		synctest.Wait()
		r.want("local resync")
		r.remote.SetAvailable(true)
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want("resync ext=config/vpp/v2/interfaces/tap1")
	})
}
