package denials

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
)

type probe struct {
	from, to netip.Addr
	port     uint16 // 0: echo requests and their fallbacks
	until    time.Time
}

const (
	// Probes take 8 s, and the next read follows.
	probed    = 8*time.Second + idle + 2*time.Second
	maxProbes = 64
)

// Probing wraps the handler of path requests (?from=ADDRESS&to=ADDRESS&port=PORT), which probes the
// hops between two addresses. Denials of these probes are marked as such.
func (k *Keeper) Probing(paths http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.URL.Query()
		from, err := netip.ParseAddr(values.Get("from"))
		to, err2 := netip.ParseAddr(values.Get("to"))
		port, err3 := strconv.ParseUint(cmp.Or(values.Get("port"), "0"), 10, 16)
		if err == nil && err2 == nil && err3 == nil {
			k.expect(probe{from, to, uint16(port), time.Now().Add(probed)})
		}
		paths.ServeHTTP(w, r)
	})
}

func (k *Keeper) expect(p probe) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.probes = slices.DeleteFunc(k.probes, func(old probe) bool { return time.Now().After(old.until) })
	if k.probes = append(k.probes, p); len(k.probes) > maxProbes {
		k.probes = slices.Clone(k.probes[1:])
	}
}

// The caller holds the lock.
func (k *Keeper) isProbe(f policyrules.DeniedFlow) bool {
	return slices.ContainsFunc(k.probes, func(p probe) bool {
		echo := f.Protocol == policyrules.ICMP || f.Protocol == policyrules.ICMPv6
		knock := f.Protocol == policyrules.UDP && f.Port == ping.KnockPort
		return f.Src == p.from && (echo || knock || f.Dst == p.to && f.Port == p.port) && k.looked.Before(p.until)
	})
}
