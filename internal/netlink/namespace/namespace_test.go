package namespace

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The process stays in its namespace, which is the one of its first thread, whichever thread runs a
// function elsewhere.
func TestProcessStaysInItsNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root")
	}
	name := fmt.Sprintf("stay%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer exec.Command("ip", "netns", "del", name).Run()
	ns, err := Open("/var/run/netns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	where := func(link string) string {
		target, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	home := where("/proc/self/ns/net")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the first thread gets a turn
	onFirst := 0
	for range 10000 {
		var inside string
		if err := ns.Run(func() error {
			inside = where("/proc/thread-self/ns/net")
			if unix.Gettid() == os.Getpid() {
				onFirst++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if inside == home {
			t.Fatal("the function did not run in the namespace")
		}
		if now := where("/proc/self/ns/net"); now != home {
			t.Fatalf("the process is in %s, and was in %s", now, home)
		}
	}
	t.Logf("%d times on the first thread", onFirst)
}
