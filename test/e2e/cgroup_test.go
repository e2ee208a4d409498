package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// A cgroup exists in every hierarchy and accepts processes; in version 2 it has all controllers. It
// is removed together with its processes. make test-vm VM_JOBS=cgroups runs this with version 2.
func TestCgroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes cgroups; run it as root")
	}
	parent := clusterCgroup(fmt.Sprintf("t%d", os.Getpid()))
	cgroup := parent + "/node"
	t.Cleanup(func() {
		if err := removeCgroup(parent); err != nil {
			t.Error(err)
		}
	})
	if err := makeCgroup(cgroup); err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "infinity")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill() })
	dirs, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, hierarchy := range dirs {
		dir := filepath.Join(hierarchy, cgroup)
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0); err != nil {
			t.Errorf("a process in it: %v", err)
		}
		want, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // version 1
		}
		got, err2 := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		t.Logf("%s has the controllers %q", dir, got)
		if err := errors.Join(err, err2); err != nil || string(got) != string(want) {
			t.Errorf("%s has the controllers %q, not %q, %v", dir, got, want, err)
		}
	}
	if pids, err := cgroupProcesses(parent); err != nil || !slices.Equal(pids, []int{sleeper.Process.Pid}) {
		t.Errorf("processes: %v, %v", pids, err)
	}
	ended := make(chan error)
	go func() { ended <- sleeper.Wait() }()
	if err := removeCgroup(parent); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process was not killed")
	}
	for _, hierarchy := range dirs {
		if exists(filepath.Join(hierarchy, parent)) {
			t.Errorf("%s has the cgroup still", hierarchy)
		}
	}
}
