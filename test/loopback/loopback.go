// Package loopback provides addresses for test servers that restart, or that start after their
// clients know the address. Another process can reuse a port chosen by the kernel as soon as it is
// closed.
package loopback

import (
	"fmt"
	"os"
	"sync/atomic"
)

// The kernel never chooses ports below 32768.
const port = 7000

var count atomic.Uint32

// Address returns a loopback address with a port, such as "127.70.12.1:7000", that no other caller
// in any process has. The address is never 127.0.0.1.
func Address() string {
	pid, n := os.Getpid(), count.Add(1)-1
	return fmt.Sprintf("127.%d.%d.%d:%d", 64+pid>>8%128, pid%256, 1+n%254, port+n/254%1000)
}
