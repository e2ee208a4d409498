package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestQuota(t *testing.T) {
	q := &Quota{What: "watches", Each: 2, All: 3}
	take := func(client, want string) (release func()) {
		t.Helper()
		release, err := q.Take(client)
		if (err == nil) != (want == "") || err != nil && !(errors.Is(err, ErrExceeded) && strings.Contains(err.Error(), want)) {
			t.Fatalf("%s: %v, want %q", client, err, want)
		}
		return release
	}
	first := take("a", "")
	second := take("a", "")
	take("a", "a has 2 watches in progress, the limit")
	third := take("b", "")
	take("b", "3 watches in progress, the limit for all clients")
	first()
	first() // counts once
	take("c", "")
	take("b", "limit for all clients")
	second()
	third()
	fourth := take("a", "")
	fourth()
	if len(q.of) != 1 || q.total != 1 {
		t.Errorf("clients without anything in progress are remembered: %v", q.of)
	}
}

func TestClientsByAddress(t *testing.T) {
	q := &Quota{What: "watches", Each: 1}
	if _, err := q.Take("[fd00::1]:1000"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Take("[fd00::1]:1001"); !errors.Is(err, ErrExceeded) {
		t.Errorf("another port is another client: %v", err)
	}
	if _, err := q.Take("[fd00::2]:1000"); err != nil {
		t.Error(err)
	}
}

func TestNoLimit(t *testing.T) {
	q := &Quota{What: "watches", All: 1000}
	for i := range 1000 {
		if _, err := q.Take("a"); err != nil {
			t.Fatal(fmt.Errorf("%d: %w", i, err))
		}
	}
	if _, err := q.Take("a"); !errors.Is(err, ErrExceeded) {
		t.Errorf("one too many: %v", err)
	}
}
