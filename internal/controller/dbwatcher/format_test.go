package dbwatcher_test

import (
	"errors"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/kubestate"
)

const (
	formatKey   = ksr + "format"
	newerFormat = `{"number":99}`
)

func (r *rig) wantNewer() {
	r.t.Helper()
	if err := r.watcher.Connected(); !errors.Is(err, kubestate.ErrNewer) {
		r.t.Errorf("connected: %v", err)
	}
}

// An agent that is too old for the format in etcd starts with its mirror.
func TestNewerFormatAtTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.stopped()
		r.put(r.remote, formatKey, newerFormat)
		r.put(r.remote, podKey, `{"name":"not as it was"}`)
		r.start()
		time.Sleep(r.config.DelayLocalResync.Std() + time.Second)
		r.want("local " + everything)
		r.wantNewer()

		r.put(r.remote, formatKey, string(kubestate.FormatValue()))
		time.Sleep(time.Minute)
		r.want(everything)
		if err := r.watcher.Connected(); err != nil {
			t.Error(err)
		}
	})
}

// A running agent ignores changes after the format number.
func TestNewerFormatWhileTheNodeRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.reflect()
		r.start()
		r.want("resync node=k8s/node/node1 pod=k8s/pod/web/namespace/default")
		r.put(r.remote, formatKey, newerFormat)
		r.put(r.remote, ifKey, `{"name":"tap1"}`)
		r.delete(podKey)
		time.Sleep(time.Hour)
		r.want()
		r.wantNewer()
		r.wantMirror(nodeKey, podKey)

		r.delete(formatKey)
		time.Sleep(time.Minute)
		r.want("resync node=k8s/node/node1 ext=config/vpp/v2/interfaces/tap1")
	})
}
