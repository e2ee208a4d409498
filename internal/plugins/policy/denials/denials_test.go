package denials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	web, outside = netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("203.0.113.9")
	db, db6      = netip.MustParseAddr("10.1.1.3"), netip.MustParseAddr("fd10::3")
)

type told struct {
	mu sync.Mutex // guards the following three fields
	policyrules.Denials
	looks     int
	live      bool
	reasons   int
	pods      map[netip.Addr]string
	isolating []string
	err       error
}

func (v *told) asked() (looks int, live bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.looks, v.live
}

func keeper(v *told) *Keeper {
	v.pods = map[netip.Addr]string{web: "shop/web", db: "shop/db", db6: "shop/db"}
	v.isolating = []string{"shop/a", "shop/b"}
	return New(Options{
		Node: "node1",
		Read: func(_ context.Context, live bool) (policyrules.Denials, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.looks++
			v.live = live
			return v.Denials, v.err
		},
		PodOf: func(addr netip.Addr) string { return v.pods[addr] },
		Denying: func(_ netip.Addr, direction contiv_filter.AccessList_Direction, byRule bool) []string {
			switch {
			case byRule:
				return []string{"guard"}
			case direction == contiv_filter.AccessList_EGRESS:
				return []string{"shop/out"}
			}
			return v.isolating
		},
		Why: func(c policyrules.Connection) []string {
			v.reasons++
			return []string{fmt.Sprint("because of ", c.Port)}
		},
	})
}

func isolated(addr netip.Addr, packets uint64) policyrules.DeniedSubject {
	return policyrules.DeniedSubject{Address: addr, Packets: packets}
}

func TestMetricsDoNotWaitForTheVSwitch(t *testing.T) {
	v := &told{}
	k := keeper(v)
	for _, v.Subjects = range [][]policyrules.DeniedSubject{nil, {isolated(web, 3)}} {
		k.Report(t.Context(), 0)
		k.looked = time.Time{}
	}
	asked, answers, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	k.Read = func(context.Context, bool) (policyrules.Denials, error) {
		close(asked)
		<-answers
		return policyrules.Denials{}, nil
	}
	go func() { defer close(done); k.Report(t.Context(), 0) }()
	<-asked
	metrics, told := make(chan prometheus.Metric, 10), make(chan int, 1)
	go func() {
		k.Collect(metrics)
		told <- len(metrics)
	}()
	select {
	case n := <-told:
		if n == 0 {
			t.Error("nothing is reported")
		}
	case <-time.After(time.Minute):
		t.Error("nothing is reported until the vswitch answers")
	}
	close(answers)
	<-done
}

// Counters may be reset, or belong to another pod than before.
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
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 3), {Address: db, ByRule: true, Packets: 2}, {Address: web, Direction: contiv_filter.AccessList_EGRESS, Packets: 1}}
		all := "[{shop/db ingress [guard] false 2} {shop/db ingress [shop/a shop/b] true 3} {shop/web egress [shop/out] true 1}]"
		want("three counters", all)
		want("nothing new", all)
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 5)}
		want("more", "[{shop/db ingress [shop/a shop/b] true 5}]")
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 4)}
		want("anew", "[{shop/db ingress [shop/a shop/b] true 9}]")
		v.pods[db] = "shop/other"
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 6)}
		want("another pod", "[{shop/other ingress [shop/a shop/b] true 2}]")
		got := plugintest.Metrics(t, k)
		if want := map[string]float64{
			byName + " egress node1 shop/out": 1, byName + " ingress node1 guard": 2,
			byName + " ingress node1 shop/a": 11, byName + " ingress node1 shop/b": 11, byPod + " isolated ingress node1 other shop": 2,
		}; !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// Packets denied before the agent started may belong to another pod or policy.
func TestEarlierCountsAreNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{Denials: policyrules.Denials{Subjects: []policyrules.DeniedSubject{isolated(db, 500)}}, err: errors.New("it is away")}
		k := keeper(v)
		want := func(what, counts string) {
			t.Helper()
			time.Sleep(busy)
			if got := fmt.Sprint(k.Report(t.Context(), 0).Counts); got != counts {
				t.Errorf("%s: %s, want %s", what, got, counts)
			}
		}
		want("the vswitch is away", "[]")
		v.err = nil
		want("at first", "[]")
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 503), isolated(web, 2)}
		want("later", "[{shop/db ingress [shop/a shop/b] true 3} {shop/web ingress [shop/a shop/b] true 2}]")
		if got, want := plugintest.Metrics(t, k)[byName+" ingress node1 shop/a"], 5.; got != want {
			t.Errorf("%v packets of policy shop/a, want %v", got, want)
		}
	})
}

// A pod's two addresses share one count. An address without a pod is not counted.
func TestWhoseCountsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		counts := func() string {
			time.Sleep(busy)
			return fmt.Sprint(k.Report(t.Context(), 0).Counts)
		}
		counts()
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 3), isolated(db6, 4), isolated(outside, 5)}
		if got, want := counts(), "[{shop/db ingress [shop/a shop/b] true 7}]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		v.isolating = []string{"shop/new"}
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 5)}
		if got, want := counts(), "[{shop/db ingress [shop/new] true 5}]"; got != want {
			t.Errorf("after policies changed: %s, want %s", got, want)
		}
		for n := range maxSeries {
			v.isolating = append(v.isolating, fmt.Sprint("shop/", n))
		}
		v.Subjects = []policyrules.DeniedSubject{isolated(db, 6)}
		if counts(); len(k.policies) > maxSeries {
			t.Errorf("%d series", len(k.policies))
		}
		v.err = errors.New("it is away")
		time.Sleep(busy)
		if r := k.Report(t.Context(), 0); !strings.Contains(r.Unknown, "it is away") {
			t.Errorf("unknown: %q", r.Unknown)
		}
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		flow := func(port uint16, packets uint64) policyrules.DeniedFlow {
			return policyrules.DeniedFlow{Src: outside, Dst: db, Protocol: policyrules.TCP, Port: port, Packets: packets}
		}
		events := func(after uint64) (text string) {
			time.Sleep(busy)
			for _, e := range k.Report(t.Context(), after).Events {
				text += fmt.Sprintf("%d %s>%s:%d %d %s\n", e.Seq, e.From, e.To, e.Port, e.Packets, e.Why)
			}
			return text
		}
		v.Flows = []policyrules.DeniedFlow{flow(80, 1)}
		if got, want := events(0), "1 >shop/db:80 1 because of 80\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		v.Flows = []policyrules.DeniedFlow{flow(80, 4), flow(81, 1)}
		if got, want := events(1), "2 >shop/db:80 3 because of 80\n3 >shop/db:81 1 because of 81\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := events(3); got != "" {
			t.Errorf("nothing is new, and got %q", got)
		}
		v.Flows = []policyrules.DeniedFlow{flow(82, 1), {Src: web, Dst: db, Protocol: policyrules.TCP, Port: 79, Packets: 1}, flow(80, 2)}
		if got, want := events(3), "4 shop/web>shop/db:79 1 because of 79\n5 >shop/db:80 2 because of 80\n6 >shop/db:82 1 because of 82\n"; got != want {
			t.Errorf("in order, with a restarted counter: %q, want %q", got, want)
		}
		if got := events(77); strings.Count(got, "\n") != 6 {
			t.Errorf("to a follower of a restarted agent: %q", got)
		}
	})
}

func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		ask := func(query string) {
			k.Probing(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		}
		told := func(flows ...policyrules.DeniedFlow) (text string) {
			v.Flows = flows
			time.Sleep(busy)
			for _, e := range k.Report(t.Context(), k.last).Events {
				text += fmt.Sprintf("%d:%v ", e.Port, e.Probe)
			}
			return text
		}
		echo := policyrules.DeniedFlow{Src: web, Dst: outside, Protocol: policyrules.ICMP, Packets: 1}
		flow := func(src, dst netip.Addr, port uint16, packets uint64) policyrules.DeniedFlow {
			return policyrules.DeniedFlow{Src: src, Dst: dst, Protocol: policyrules.TCP, Port: port, Packets: packets}
		}
		for range 2 * maxProbes {
			ask("from=10.1.1.9&to=10.1.1.8")
		}
		ask("from=" + web.String() + "&to=" + db.String() + "&protocol=tcp&port=80")
		ask("from=nonsense&to=")
		knock := policyrules.DeniedFlow{Src: web, Dst: outside, Protocol: policyrules.UDP, Port: ping.KnockPort, Packets: 1}
		if got := told(flow(web, db, 80, 1), flow(web, db, 81, 1), flow(outside, db, 82, 1), echo, knock); got != "80:true 81:false 0:true 33434:true 82:false " {
			t.Errorf("%q", got)
		}
		if len(k.probes) > maxProbes {
			t.Errorf("%d are remembered", len(k.probes))
		}
		time.Sleep(probed)
		if got := told(flow(web, db, 80, 2)); got != "80:false " {
			t.Errorf("later: %q", got)
		}
	})
}

func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		random := rand.New(rand.NewPCG(1, 1))
		for range 100 {
			v.Flows = nil
			for range 8192 {
				v.Flows = append(v.Flows, policyrules.DeniedFlow{Src: outside, Dst: db, Protocol: policyrules.UDP, Port: uint16(random.Uint32()), Packets: 1 + random.Uint64N(9)})
			}
			time.Sleep(busy)
			if r := k.Report(t.Context(), 0); len(r.Events) > maxEvents || r.Events[len(r.Events)-1].Seq != r.Last {
				t.Fatalf("%d events are kept, until %d of %d", len(r.Events), r.Events[len(r.Events)-1].Seq, r.Last)
			}
		}
		if v.reasons > 100*maxReasons || len(k.flows) > 8192 || cap(k.events) > 16*maxEvents {
			t.Errorf("%d reasons were asked for, %d flows and %d events are kept", v.reasons, len(k.flows), cap(k.events))
		}
	})
}

func TestWhenTheVSwitchIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &told{}
		k := keeper(v)
		ctx, cancel := context.WithCancel(t.Context())
		go k.Run(ctx)
		time.Sleep(100*time.Second + time.Millisecond)
		before, live := v.asked()
		if before != 11 || live {
			t.Errorf("%d looks in 100 seconds, live: %v", before, live)
		}
		for range 60 {
			k.Report(t.Context(), 0)
			time.Sleep(time.Second)
		}
		looks, live := v.asked()
		if n := looks - before; n < 55 || n > 125 || !live {
			t.Errorf("%d looks in 60 seconds with a follower, live: %v", n, live)
		}
		// A request counts as following for a while. Two requests at once share one read.
		before, _ = v.asked()
		k.Report(t.Context(), 0)
		k.Report(t.Context(), 0)
		if looks, _ := v.asked(); looks > before+1 {
			t.Errorf("%d looks at once", looks-before)
		}
		time.Sleep(10 * time.Second)
		if looks, _ := v.asked(); looks < before+8 {
			t.Errorf("%d reads in 10 seconds after a request", looks-before)
		}
		v.mu.Lock()
		v.NoFlows = "file not found"
		v.mu.Unlock()
		time.Sleep(time.Second)
		if r := k.Report(t.Context(), 0); !strings.Contains(r.Unknown, "file not found") {
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
		t.Error("a vswitch without reports")
	}
	prometheus.NewPedanticRegistry().MustRegister(k)
}
