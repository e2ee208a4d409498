// Package loopback gives tests addresses for servers that other processes are told of before
// the servers listen, or that stop and start again. A port that the kernel has chosen is no
// longer the test's once it is closed: another test, or a connection, may get it meanwhile.
package loopback

import (
	"fmt"
	"os"
	"sync/atomic"
)

// The kernel chooses no port below 32768.
const port = 7000

var count atomic.Uint32

// Address returns a loopback address with a port, such as "127.70.12.1:7000", that no other
// caller has, in this process or another one. 127.0.0.1 leads elsewhere.
func Address() string {
	pid, n := os.Getpid(), count.Add(1)-1
	return fmt.Sprintf("127.%d.%d.%d:%d", 64+pid>>8%128, pid%256, 1+n%254, port+n/254%1000)
}
