package denials

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/filter"
	"github.com/prometheus/client_golang/prometheus"
)

var web, db, outside = netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("10.1.1.3"), netip.MustParseAddr("203.0.113.9")

// told is a vswitch.
type told struct {
	filter.Denials
	looks, reasons int
	live           bool
	pods           map[netip.Addr]string
}

func keeper(v *told) *Keeper {
	v.pods = map[netip.Addr]string{web: "shop/web", db: "shop/db"}
	return New(Options{
		Node: "node1",
		Read: func(_ context.Context, live bool) (filter.Denials, error) {
			v.looks++
			v.live = live
			return v.Denials, nil
		},
		PodOf: func(addr netip.Addr) string { return v.pods[addr] },
		Denying: func(_ netip.Addr, direction contiv_filter.AccessList_Direction, byRule bool) []string {
			if byRule {
				return []string{"guard"}
			}
			return []string{"shop/a", "shop/b"}
		},
		Why: func(c filter.Connection) []string { v.reasons++; return []string{fmt.Sprint("because of ", c.Port)} },
	})
}

func isolated(addr netip.Addr, packets uint64) filter.DeniedSubject {
	return filter.DeniedSubject{Address: addr, Packets: packets}
}

// What counters grow by counts, whether they begin anew, or are those of another pod.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		want := func(what, counts string) {
			t.Helper()
			time.Sleep(busy)
			if got := fmt.Sprint(k.Report(t.Context(), 0).Counts); got != counts {
				t.Errorf("%s: %s, want %s", what, got, counts)
			}
		}
		want("at first", "[]")
		v.Subjects = []filter.DeniedSubject{isolated(db, 3), {Address: db, ByRule: true, Packets: 2}, {Address: web, Direction: contiv_filter.AccessList_EGRESS, Packets: 1}}
		all := "[{shop/db ingress [guard] false 2} {shop/db ingress [shop/a shop/b] true 3} {shop/web egress [shop/a shop/b] true 1}]"
		want("three counters", all)
		want("nothing new", all)
		v.Subjects = []filter.DeniedSubject{isolated(db, 5)}
		want("more", "[{shop/db ingress [shop/a shop/b] true 5}]")
		v.Subjects = []filter.DeniedSubject{isolated(db, 4)}
		want("anew", "[{shop/db ingress [shop/a shop/b] true 9}]")
		v.pods[db] = "shop/other"
		v.Subjects = []filter.DeniedSubject{isolated(db, 6)}
		want("another pod", "[{shop/other ingress [shop/a shop/b] true 2}]")
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(k)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetValue())
				}
				got[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue()
			}
		}
		if want := map[string]float64{
			byName + " egress node1 shop/a": 1, byName + " egress node1 shop/b": 1, byName + " ingress node1 guard": 2,
			byName + " ingress node1 shop/a": 11, byName + " ingress node1 shop/b": 11, byPod + " isolated ingress node1 other shop": 2,
		}; !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		flow := func(port uint16, packets uint64) filter.DeniedFlow {
			return filter.DeniedFlow{Src: outside, Dst: db, Protocol: filter.TCP, Port: port, Packets: packets}
		}
		events := func(after uint64) (text string) {
			time.Sleep(busy)
			for _, e := range k.Report(t.Context(), after).Events {
				text += fmt.Sprintf("%d %s>%s:%d %d %s\n", e.Seq, e.From, e.To, e.Port, e.Packets, e.Why)
			}
			return text
		}
		v.Flows = []filter.DeniedFlow{flow(80, 1)}
		if got, want := events(0), "1 >shop/db:80 1 because of 80\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		v.Flows = []filter.DeniedFlow{flow(80, 4), flow(81, 1)}
		if got, want := events(1), "2 >shop/db:80 3 because of 80\n3 >shop/db:81 1 because of 81\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := events(3); got != "" {
			t.Errorf("nothing is new, and got %q", got)
		}
		if got := events(77); strings.Count(got, "\n") != 3 {
			t.Errorf("to one who followed an agent that ended: %q", got)
		}
	})
}

// However much is denied, what is kept and asked for stays bounded.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		random := rand.New(rand.NewPCG(1, 1))
		for range 100 {
			v.Flows = nil
			for range 8192 {
				v.Flows = append(v.Flows, filter.DeniedFlow{Src: outside, Dst: db, Protocol: filter.UDP, Port: uint16(random.Uint32()), Packets: 1 + random.Uint64N(9)})
			}
			time.Sleep(busy)
			if r := k.Report(t.Context(), 0); len(r.Events) > maxEvents {
				t.Fatalf("%d events are kept", len(r.Events))
			}
		}
		if v.reasons > 100*maxReasons || len(k.flows) > 8192 || cap(k.events) > 16*maxEvents {
			t.Errorf("%d reasons were asked for, %d flows and %d events are kept", v.reasons, len(k.flows), cap(k.events))
		}
	})
}

// Without followers, the vswitch is asked less often.
func TestWhenTheVSwitchIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		ctx, cancel := context.WithCancel(t.Context())
		go k.Run(ctx)
		time.Sleep(100*time.Second + time.Millisecond)
		if v.looks != 11 || v.live {
			t.Errorf("%d looks in 100 seconds, live: %v", v.looks, v.live)
		}
		before := v.looks
		for range 60 {
			k.Report(t.Context(), 0)
			time.Sleep(time.Second)
		}
		if n := v.looks - before; n < 55 || n > 125 || !v.live {
			t.Errorf("%d looks in 60 seconds with a follower, live: %v", n, v.live)
		}
		v.NoFlows = "there is no file"
		time.Sleep(time.Second)
		if r := k.Report(t.Context(), 0); !strings.Contains(r.Unknown, "there is no file") {
			t.Errorf("unknown: %q", r.Unknown)
		}
		cancel()
		synctest.Wait()
	})
}

func TestREST(t *testing.T) {
	k := New(Options{Node: "node1"})
	for url, code := range map[string]int{URL: 200, URL + "?after=7": 200, URL + "?after=x": 400} {
		answer := httptest.NewRecorder()
		k.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, url, nil))
		if answer.Code != code {
			t.Errorf("%s: %d %s", url, answer.Code, answer.Body)
		}
	}
	if r := k.Report(t.Context(), 0); r.Unknown == "" {
		t.Error("a vswitch that tells nothing")
	}
	prometheus.NewPedanticRegistry().MustRegister(k)
}
