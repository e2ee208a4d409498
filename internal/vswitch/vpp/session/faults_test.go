package session_test

import (
	"log/slog"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
)

// The result of calls, and VPP's state, if VPP refuses, dies before or after a request, or answers
// late.
func TestFaults(t *testing.T) {
	const refused, cut = "refused", "cut"
	for _, test := range []struct {
		fault vpptest.Fault
		err   string
		done  bool
	}{
		{vpptest.NoFault, "", true}, {vpptest.Refusal, refused, false}, {vpptest.CutBefore, cut, false}, {vpptest.CutAfter, cut, true}, {vpptest.LateAnswer, "", true},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			server := vpptest.New(t)
			s := session.New(server.Socket(), slog.New(slog.DiscardHandler))
			tables := session.NewModule("", "tables", &ip.IPTableAddDelV2{}, &ip.IPTableAddDelV2Reply{})
			s.Start(session.Hooks{Modules: []*session.Module{tables}})
			defer s.Close()
			if err := s.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			server.Inject(func(int, api.Message) vpptest.Fault { return test.fault })
			err := s.Call(t.Context(), tables, &ip.IPTableAddDelV2{IsAdd: true, Table: ip.IPTable{TableID: 7}}, &ip.IPTableAddDelV2Reply{})
			server.Inject(nil)
			got := ""
			switch {
			case vppapi.Refused(err, api.UNSPECIFIED):
				got = refused
			case err != nil:
				got = cut
			}
			if got != test.err {
				t.Errorf("got %v, want %q", err, test.err)
			}
			done := false
			for _, m := range server.Do(&ip.IPTableDump{}) {
				done = done || m.(*ip.IPTableDetails).Table.TableID == 7
			}
			if done != test.done {
				t.Errorf("VPP has handled it: %v, want %v", done, test.done)
			}
		})
	}
}

func TestUnregisteredModulesPanic(t *testing.T) {
	server := vpptest.New(t)
	s := session.New(server.Socket(), slog.New(slog.DiscardHandler))
	s.Start(session.Hooks{})
	defer s.Close()
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a module that the session was not started with was used")
		}
	}()
	_, _ = s.Use(session.NewModule("", "forgotten"))
}
