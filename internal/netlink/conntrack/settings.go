package conntrack

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
)

// Settings are sysctls of connection tracking that service proxies depend on. Zero values leave the
// sysctls unchanged.
type Settings struct {
	// Max is the minimum size of the connection table. A larger table is not reduced.
	Max uint64
	// Established and CloseWait limit how long a TCP connection may be silent or half-closed. UDP
	// and UDPStream limit how long UDP flows without and with replies may be silent. Fractions of
	// seconds are ignored.
	Established, CloseWait, UDP, UDPStream time.Duration
	// Liberal accepts TCP segments outside of the window as part of their connection.
	Liberal bool
}

const sysctls = "netfilter/nf_conntrack_"

// Apply sets the sysctls in the network namespace of the process, as far as possible, and returns
// an error that names the others. All network namespaces share one table size, which only the first
// one can change.
func (s Settings) Apply() error {
	errs := []error{s.applyMax()}
	for name, d := range map[string]time.Duration{
		"tcp_timeout_established": s.Established, "tcp_timeout_close_wait": s.CloseWait, "udp_timeout": s.UDP, "udp_timeout_stream": s.UDPStream,
	} {
		if seconds := int64(d / time.Second); seconds > 0 {
			errs = append(errs, namespace.EnsureSysctl(sysctls+name, strconv.FormatInt(seconds, 10)))
		}
	}
	if s.Liberal {
		errs = append(errs, namespace.EnsureSysctl(sysctls+"tcp_be_liberal", "1"))
	}
	return errors.Join(errs...)
}

// applyMax enlarges the table and, like kube-proxy, its hash table, so that chains have four
// connections on average.
func (s Settings) applyMax() error {
	if s.Max == 0 {
		return nil
	}
	for _, table := range []struct {
		name string
		want uint64
	}{{"max", s.Max}, {"buckets", s.Max / 4}} {
		name, want := sysctls+table.name, table.want
		text := namespace.ReadSysctl(name)
		have, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("net/%s cannot be read (%q): does the kernel track connections?", name, text)
		}
		if have >= want || have == 0 { // 0: no limit
			continue
		}
		if err := namespace.EnsureSysctl(name, strconv.FormatUint(want, 10)); err != nil {
			return err
		}
	}
	return nil
}
