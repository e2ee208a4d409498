package linux

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/contiv/contiv/internal/netlink/nsfile"
)

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
	want, err := nsfile.Stat(pathOf(netns))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		now, err := nsfile.Stat("/proc/" + pid + "/ns/net")
		return err == nil && now == want
	}, "nsenter enters the namespace")
	return pid
}
