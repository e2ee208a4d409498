package conntrack

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/contiv/contiv/netlink/namespace"
)

// Settings are sysctls of connection tracking that proxies of services depend on. The zero value of each leaves
// the sysctl as it is.
type Settings struct {
	// Max is the number of connections that the table has room for. A larger table stays.
	Max uint64
	// Established and CloseWait are how long a TCP connection may be silent, and how long it may be half-closed.
	// UDP and UDPStream are how long flows of UDP may be silent, the latter with answers. Whole seconds count.
	Established, CloseWait, UDP, UDPStream time.Duration
	// Liberal has TCP segments outside of the window belong to their connection.
	Liberal bool
}

const sysctls = "netfilter/nf_conntrack_"

// Apply sets them in the network namespace of the process. It sets those that it can, and returns an error that
// names the others. The kernel has one size of the table for all network namespaces, and lets only the first one change it.
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

// applyMax enlarges the table, and the hash table with it as kube-proxy does: chains have four connections on average.
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
