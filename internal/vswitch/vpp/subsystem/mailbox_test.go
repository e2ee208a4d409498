package subsystem

import (
	"fmt"
	"slices"
	"testing"
)

// A burst is one report with all keys and a readable reason.
func TestReasonsOfABurst(t *testing.T) {
	for _, test := range []struct {
		burst int
		want  string
	}{
		{0, ""},
		{1, "interface tap0 was deleted"},
		{4, "interface tap0 was deleted; interface tap1 was deleted; interface tap2 was deleted; interface tap3 was deleted"},
		{5, "interface tap0 was deleted; interface tap1 was deleted; interface tap2 was deleted; interface tap3 was deleted; and 1 more"},
		{1000, "interface tap0 was deleted; interface tap1 was deleted; interface tap2 was deleted; interface tap3 was deleted; and 996 more"},
	} {
		b := &mailbox{full: make(chan struct{}, 1)}
		var want []string
		for i := range test.burst {
			name := fmt.Sprint("tap", i)
			b.put(fmt.Sprintf("interface %s was deleted", name), name)
			want = append(want, name)
		}
		if test.burst > 0 {
			b.put("interface tap0 was deleted", "tap0") // nothing new
		}
		reason, keys := b.take()
		slices.Sort(want)
		if reason != test.want || !slices.Equal(keys, want) {
			t.Errorf("%d: %q, %d keys; want %q, %d keys", test.burst, reason, len(keys), test.want, len(want))
		}
		if reason, keys := b.take(); reason != "" || len(keys) > 0 {
			t.Errorf("%d: once more: %q, %v", test.burst, reason, keys)
		}
	}
}

// "Everything" covers all keys.
func TestEverythingChangedInABurst(t *testing.T) {
	b := &mailbox{full: make(chan struct{}, 1)}
	for i := range maxReasons + 2 {
		name := fmt.Sprint("tap", i)
		b.put(fmt.Sprintf("interface %s was deleted", name), name)
	}
	b.put("VPP was restarted")
	const want = "VPP was restarted; interface tap0 was deleted; interface tap1 was deleted; interface tap2 was deleted; interface tap3 was deleted; and 2 more"
	if reason, keys := b.take(); reason != want || keys != nil {
		t.Errorf("%q, %v", reason, keys)
	}
}
