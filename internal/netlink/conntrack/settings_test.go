package conntrack

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
)

// Zero settings and larger tables stay unchanged. A table that cannot be enlarged does not prevent
// the other settings.
func TestSettings(t *testing.T) {
	ns, h := namespaceOfTest(t)
	track(t, h, "10.1.1.2", "10.96.0.10", "10.1.1.3") // loads the kernel's module
	if err := namespace.In(ns, func() error {
		read := func(name string) string { return namespace.ReadSysctl(sysctls + name) }
		stream, table := read("udp_timeout_stream"), read("max")
		s := Settings{Max: 1, Established: 24 * time.Hour, CloseWait: time.Hour, UDP: 7 * time.Second, Liberal: true}
		for range 2 {
			if err := s.Apply(); err != nil {
				return err
			}
		}
		for name, want := range map[string]string{
			"tcp_timeout_established": "86400", "tcp_timeout_close_wait": "3600", "udp_timeout": "7", "udp_timeout_stream": stream, "tcp_be_liberal": "1", "max": table,
		} {
			if got := read(name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		err := Settings{Max: 1 << 30, CloseWait: 2 * time.Hour}.Apply() // only the first network namespace may
		if err == nil || !strings.Contains(err.Error(), "nf_conntrack_max to 1073741824") || !strings.Contains(err.Error(), "set it on the host") {
			t.Errorf("a table that cannot be enlarged: %v", err)
		}
		if got := read("tcp_timeout_close_wait"); got != "7200" {
			t.Errorf("half-closed connections are forgotten after %s s, want 7200", got)
		}
		if got := read("max"); got != table {
			t.Errorf("the table has room for %s connections, want %s", got, table)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
