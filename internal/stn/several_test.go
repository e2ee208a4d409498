package stn

import (
	"testing"

	"github.com/contiv/contiv/internal/stn/journal"
)

// Each card is given and returned independently; all are with the host at the end.
func TestSeveralCards(t *testing.T) {
	h := newHost(t)
	h.ip(t, "link add eth1 address 02:00:00:00:00:11 type veth peer name card1 netns "+h.network)
	ip(t, "-n "+h.network+" link set card1 up")
	h.ip(t, "link set eth1 up")
	h.ip(t, "addr add 198.18.0.1/24 dev eth1")
	h.ip(t, "route add 198.19.0.0/16 via 198.18.0.254 dev eth1")
	routes := func() string { return h.ip(t, "-4 route show dev eth1") }
	before, own := h.has(t), routes()
	k := h.keeper(t)
	for _, name := range []string{"eth0", "eth1"} {
		if e, err := k.Steal(name, false); err != nil || e.Name != name {
			t.Fatalf("%s: stolen %+v, %v", name, e, err)
		}
	}
	h.interconnect(t)
	k.checkCards()
	first, second := k.Attend("eth0"), k.Attend("eth1")
	first.Report(true, "")
	second.Report(true, "")
	for _, name := range []string{"eth0", "eth1"} {
		if e := k.Claimed(name); e == nil || e.Holder != journal.VSwitch {
			t.Errorf("%s is with %+v", name, e)
		}
	}
	if got := routes(); got != "" {
		t.Errorf("stolen, eth1 has the routes %s", got)
	}

	second.Report(false, "it has no link")
	if got := k.Claimed("eth1"); got.Holder != journal.Host || k.Claimed("eth0").Holder != journal.VSwitch {
		t.Errorf("given back is %+v", got)
	}
	wantSame(t, "eth1 given back", routes(), own)

	second.Report(true, "")
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	wantSame(t, "eth0 at the end", h.has(t), before)
	wantSame(t, "eth1 at the end", routes(), own)
	next := h.keeper(t)
	defer next.Close()
	if err := next.Release(""); err != nil || len(next.journal.NICs) > 0 {
		t.Errorf("released: %v; left: %v", err, next.journal.NICs)
	}
}
