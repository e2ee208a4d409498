package health

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/internal/agent/health/published"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
)

// A missing KSR, or its problems, are reported, but do not count as problems of the node.
func TestKSR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		etcd := memory.New()
		var down error
		m := NewMonitor(func() error { return nil }, KSR(etcd, func() error { return down }))
		look := func() string {
			problems := m.Look(t.Context())
			if m.Verdict(problems) != Healthy {
				t.Errorf("the verdict on the node is %s", m.Verdict(problems))
			}
			var texts []string
			for _, p := range problems {
				if !p.Cluster || p.Check != "ksr" {
					t.Errorf("%+v", p)
				}
				texts = append(texts, p.Text)
			}
			return strings.Join(texts, "\n")
		}
		write := func(p published.KSR) {
			p.Instance, p.Time = "host1", time.Now()
			data, _ := json.Marshal(p)
			if err := etcd.Put(context.Background(), published.KSRKey, data); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(when, want string) {
			t.Helper()
			if got := look(); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s: got %q, want %q", when, got, want)
			}
		}
		expect("at first", "")
		time.Sleep(ksrSilent)
		expect("without KSR", "KSR has never reported its status")
		write(published.KSR{Complete: true})
		expect("when it runs", "")
		for range 10 { // heartbeats
			time.Sleep(published.Heartbeat)
			write(published.KSR{Complete: true})
			expect("while it runs", "")
		}
		time.Sleep(ksrSilent)
		expect("when it is gone", "KSR (instance host1) has written nothing to etcd since 2000-01-01T00:04:20Z: changes in Kubernetes do not reach the nodes until")
		down = errors.New("not connected")
		expect("without etcd", "")
		down = nil
		expect("with etcd again", "")
		write(published.KSR{Complete: true, Problems: []string{"pods cannot be read:\nforbidden"}, More: 2})
		expect("with problems", "KSR: pods cannot be read:; forbidden\nKSR: 2 more problems: see")
		write(published.KSR{Complete: true})
		expect("at last", "")
	})
}
