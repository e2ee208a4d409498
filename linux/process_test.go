package linux

import (
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// processIn starts a process in the namespace and returns its ID.
func processIn(t testing.TB, netns string) string {
	t.Helper()
	cmd := exec.Command("nsenter", "--net="+pathOf(netns), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := strconv.Itoa(cmd.Process.Pid)
	want, id, err := openNetNS(pathOf(netns))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(want)
	waitFor(t, func() bool {
		fd, now, err := openNetNS("/proc/" + pid + "/ns/net")
		if err != nil {
			return false
		}
		unix.Close(fd)
		return now == id
	}, "nsenter enters the namespace")
	return pid
}
