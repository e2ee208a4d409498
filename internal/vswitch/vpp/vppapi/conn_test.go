package vppapi_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vpe"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, vpp vpptest.VPP) *vppapi.Conn {
	t.Helper()
	c, err := vppapi.Dial(t.Context(), vpp.Socket(), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Each caller gets the answers to its own requests.
func TestPipelinedRequestsOfMany(t *testing.T) {
	c := dial(t, vpptest.New(t))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var pings, versions []*vppapi.Pending
			for range 500 {
				pings = append(pings, c.Start(t.Context(), &memclnt.ControlPing{}))
				versions = append(versions, c.Start(t.Context(), &vpe.ShowVersion{}))
			}
			for i := range pings {
				var ping memclnt.ControlPingReply
				var version vpe.ShowVersionReply
				if err := errors.Join(pings[i].Wait(t.Context(), &ping), versions[i].Wait(t.Context(), &version)); err != nil || version.Program != "vpe" {
					t.Errorf("got %v, %v", version, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// Requests are counted by their results.
func TestTotals(t *testing.T) {
	before := vppapi.Count()
	s := vpptest.New(t)
	c := dial(t, s)
	for range 3 {
		if err := c.Call(t.Context(), &memclnt.ControlPing{}, &memclnt.ControlPingReply{}); err != nil {
			t.Fatal(err)
		}
	}
	if now := vppapi.Count(); now.Created-before.Created != 1 || now.Open-before.Open != 1 || now.Sent-before.Sent != 3 || now.Replies-before.Replies != 3 {
		t.Errorf("%+v after %+v", now, before)
	}
	s.Silence(true)
	c.Start(t.Context(), &memclnt.ControlPing{})
	c.Close()
	if now := vppapi.Count(); now.Open != before.Open || now.Sent-before.Sent != 4 || now.Done-before.Done != 3 || now.Failed-before.Failed != 1 {
		t.Errorf("at the end: %+v after %+v", now, before)
	}
}

func TestConnectionEndsWhileRequestsAreUnderWay(t *testing.T) {
	s := vpptest.New(t)
	c := dial(t, s)
	s.Silence(true)
	var pending []*vppapi.Pending
	for range 100 {
		pending = append(pending, c.Start(t.Context(), &memclnt.ControlPing{}))
	}
	s.Disconnect()
	for _, p := range pending {
		if err := p.Wait(t.Context(), &memclnt.ControlPingReply{}); !errors.Is(err, vppapi.ErrClosed) {
			t.Errorf("got %v, want %v", err, vppapi.ErrClosed)
		}
	}
	if err := c.Call(t.Context(), &memclnt.ControlPing{}, &memclnt.ControlPingReply{}); !errors.Is(err, vppapi.ErrClosed) {
		t.Errorf("afterwards: got %v, want %v", err, vppapi.ErrClosed)
	}
}

func TestUnknownMessageIsNotSent(t *testing.T) {
	s := vpptest.New(t)
	s.OtherCRC("show_version", "0badcafe")
	c := dial(t, s)
	err := c.Call(t.Context(), &vpe.ShowVersion{}, &vpe.ShowVersionReply{})
	var unknown *vppapi.UnknownMessageError
	if !errors.As(err, &unknown) || unknown.Theirs != "0badcafe" {
		t.Errorf("got %v, want an error with both CRCs", err)
	}
}

func TestAnswerOfAnotherKind(t *testing.T) {
	c := dial(t, vpptest.New(t))
	err := c.Call(t.Context(), &vpe.ShowVersion{}, &memclnt.ControlPingReply{})
	if err == nil || !strings.Contains(err.Error(), "show_version_reply") {
		t.Errorf("got %v, want an error that says what was answered", err)
	}
}

// Connecting to another program ends with an error.
func TestThatIsNotVPP(t *testing.T) {
	for name, answer := range map[string]string{
		"silence and the end":  "",
		"HTTP":                 "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"a frame too long":     "\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00",
		"an empty frame":       strings.Repeat("\x00", 16),
		"a message cut off":    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00\x00abc",
		"a table without rows": "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00\x00\x00\x10" + strings.Repeat("\x00", 16) + "\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			defer serving.Wait()
			defer l.Close()
			serving.Go(func() {
				nc, err := l.Accept()
				if err != nil {
					return
				}
				defer nc.Close()
				_, _ = vppapi.ReadFrame(nc)
				_, _ = nc.Write([]byte(answer))
			})
			if c, err := vppapi.Dial(t.Context(), socket, "test"); err == nil {
				c.Close()
				t.Error("connected")
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if nc, err := l.Accept(); err == nil {
			defer nc.Close()
			_, _ = vppapi.ReadFrame(nc)
			cancel()
			<-t.Context().Done()
		}
	}()
	if _, err := vppapi.Dial(ctx, socket, "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// BenchmarkPing measures requests one by one and pipelined.
func BenchmarkPing(b *testing.B) {
	c := dial(b, vpptest.New(b))
	b.Run("one by one", func(b *testing.B) {
		for range b.N {
			if err := c.Call(b.Context(), &memclnt.ControlPing{}, &memclnt.ControlPingReply{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pipelined", func(b *testing.B) {
		var pending []*vppapi.Pending
		for range b.N {
			pending = append(pending, c.Start(b.Context(), &memclnt.ControlPing{}))
		}
		for _, p := range pending {
			if err := p.Wait(b.Context(), &memclnt.ControlPingReply{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
