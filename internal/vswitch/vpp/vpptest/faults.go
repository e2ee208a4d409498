package vpptest

import (
	"time"

	"go.fd.io/govpp/api"
)

// Fault is an injected error.
type Fault int

const (
	// NoFault: the request is handled and answered.
	NoFault Fault = iota
	// Refusal: the request is refused with UNSPECIFIED and has no effect. Dumps, which have no
	// reply, are answered.
	Refusal
	// CutBefore: the connection ends before the request is handled.
	CutBefore
	// CutAfter: the request is handled, and the connection ends before the answer.
	CutAfter
	// LateAnswer: the request is handled and answered after LateBy.
	LateAnswer
)

// LateBy is how late answers are.
const LateBy = 30 * time.Millisecond

// String names the fault.
func (f Fault) String() string {
	return [...]string{"no fault", "refusal", "cut before", "cut after", "late answer"}[f]
}

// Inject makes choose select the fault of each request from now on; nil: none. It gets the number
// of the request since Inject, from 0, and is called with the state locked: it must not call the
// server. The handshake, Do, and control_ping, which also marks the end of dumps, are not counted.
func (s *Server) Inject(choose func(n int, req api.Message) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose, s.requests = choose, 0
}

// Requests returns the number of requests since Inject.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// LoseEvents drops or resumes all events.
func (s *Server) LoseEvents(lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = lost
}

// fault returns the fault of a request.
func (s *Server) fault(req api.Message) Fault {
	if s.choose == nil || req.GetMessageName() == "control_ping" {
		return NoFault
	}
	s.requests++
	return s.choose(s.requests-1, req)
}
