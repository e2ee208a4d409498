package linux

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// writes records requests that change the kernel's state.
type writes struct {
	mu    sync.Mutex
	calls []string
	on    bool
}

// reading lists the read-only requests. SetNetNsIdByFd subscribes to the events of a namespace.
var reading = []string{
	"Execute", "LinkByName", "LinkByIndex", "LinkList", "NeighList", "RouteGet", "RouteListFiltered", "RuleList", "GetNetNsIdByFd", "SetNetNsIdByFd",
}

func (w *writes) observe(call string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.on && !slices.Contains(reading, call) {
		w.calls = append(w.calls, call)
	}
	return nil
}

// during returns the writes made while do ran.
func (w *writes) during(do func()) []string {
	w.mu.Lock()
	w.on, w.calls = true, nil
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = false
	return w.calls
}

// Watch and Retrieve never change anything. Repairs are transactions.
func TestReadersDoNotWrite(t *testing.T) {
	a, netns := newAgent(t), netNSName(t)
	pod, values := podWithTap("1", netns, "10.1.1.2", "10.1.1.1")
	var w writes
	a.namespaces.InjectFaults(w.observe)
	defer a.namespaces.InjectFaults(nil)
	put := func() { a.commit(a.put(values...), kvscheduler.WithResync(kvscheduler.FullResync)) }
	if calls := w.during(put); len(calls) == 0 {
		t.Fatal("no write is seen")
	}
	reports := make(chan []string, 1000)
	a.watchWith(func(_ string, keys ...string) { reports <- keys })
	for name, accident := range map[string]struct {
		ip  []string
		key string
	}{
		"route deleted":     {[]string{"route", "del", "default"}, models.Key(pod.defRoute)},
		"route replaced":    {[]string{"route", "replace", "default", "via", "10.1.1.1", "dev", "eth0", "onlink", "proto", "4"}, models.Key(pod.defRoute)},
		"address deleted":   {[]string{"addr", "del", "10.1.1.2/32", "dev", "eth0"}, models.Key(pod.tap)},
		"neighbour deleted": {[]string{"neigh", "del", "10.1.1.1", "dev", "eth0"}, models.Key(pod.arp)},
		"MTU changed":       {[]string{"link", "set", "eth0", "mtu", "1300"}, models.Key(pod.tap)},
		"MAC changed":       {[]string{"link", "set", "eth0", "address", "02:fe:00:00:00:99"}, models.Key(pod.tap)},
		"device set down":   {[]string{"link", "set", "eth0", "down"}, models.Key(pod.tap)},
		"device deleted":    {[]string{"link", "del", "eth0"}, models.Key(pod.tap)},
	} {
		t.Run(name, func(t *testing.T) {
			calls := w.during(func() {
				ip(t, append([]string{"-n", netns}, accident.ip...)...)
				for reported := false; !reported; {
					select {
					case keys := <-reports:
						reported = slices.Contains(keys, accident.key)
					case <-time.After(time.Minute):
						t.Fatal("no report")
					}
				}
				if _, err := a.scheduler.Verify(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			if len(calls) > 0 {
				t.Errorf("noticing it and reading back wrote: %v", calls)
			}
			if strings.Contains(name, "replaced") { // foreign objects stay
				ip(t, append([]string{"-n", netns, "route", "del"}, accident.ip[2:]...)...)
			}
			put()
		})
	}
}
