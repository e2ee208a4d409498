package vpptest

import "fmt"

// DefaultBuffers is how many buffers a Server has.
const DefaultBuffers = 16384

// SetBuffers changes the number of buffers, across restarts.
func (s *Server) SetBuffers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffers = n
}

func handleBuffers() {
	commands["show buffers"] = func(c *call) string {
		used := 0
		c.ifs.all(func(i *swInterface) {
			if t, ok := i.kind.(tap); ok {
				used += int(t.RxRingSz)
			}
		})
		used = min(used, c.server.buffers)
		return fmt.Sprintf("Pool Name            Index NUMA  Size  Data Size  Total  Avail  Cached   Used  \n"+
			"%-20s %5d %4d %5d %10d %6d %6d %7d %6d\n", "default-numa-0", 0, 0, 2304, 2048, c.server.buffers, c.server.buffers-used, 0, used)
	}
}
