package podmanager

import "runtime"

// Enter makes a call in another goroutine and returns once it is in the line.
func (s *Server) Enter(call func()) {
	latest := func() chan struct{} {
		s.pods.line.mu.Lock()
		defer s.pods.line.mu.Unlock()
		return s.pods.line.last["start"]
	}
	before := latest()
	go call()
	for latest() == before {
		runtime.Gosched()
	}
}
