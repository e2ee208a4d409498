package vpptest

import (
	"time"

	"go.fd.io/govpp/api"
)

// Fault is what goes wrong at a request.
type Fault int

const (
	// NoFault: the request is handled and answered.
	NoFault Fault = iota
	// Refusal: the request is refused with UNSPECIFIED, and nothing is done. Dumps, which VPP
	// has no reply for, are answered.
	Refusal
	// CutBefore: the connection ends instead; the request was not handled.
	CutBefore
	// CutAfter: the request is handled, and the connection ends instead of the answer.
	CutAfter
	// LateAnswer: the request is handled, and answered after LateBy.
	LateAnswer
)

// LateBy is how late answers are.
const LateBy = 30 * time.Millisecond

// String names the fault.
func (f Fault) String() string {
	return [...]string{"no fault", "refusal", "cut before", "cut after", "late answer"}[f]
}

// Inject has choose decide what goes wrong at each request from now on; nil: nothing. It is
// given the number of the request since Inject was called, from 0, and is called while the
// state is locked: it must not call the server. The handshake of a connection and what Do does
// are not counted, control_ping neither: it also marks the end of each dump.
func (s *Server) Inject(choose func(n int, req api.Message) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose, s.requests = choose, 0
}

// Requests returns how many requests there were since Inject was called.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// LoseEvents has no client get an event until it is taken back.
func (s *Server) LoseEvents(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = lost
}

// fault returns what goes wrong at a request.
func (s *Server) fault(req api.Message) Fault {
	if s.choose == nil || req.GetMessageName() == "control_ping" {
		return NoFault
	}
	s.requests++
	return s.choose(s.requests-1, req)
}
