package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// clusterCgroup is the cgroup of all processes started by a cluster's kubelets, in every hierarchy.
func clusterCgroup(cluster string) string { return "/contiv-e2e-" + cluster }

func (c *Cluster) cgroup(node string) string { return clusterCgroup(c.opts.Name) + "/" + node }

// hierarchies returns the mount points of the cgroup hierarchies: of version 1, one per controller,
// or the one of version 2.
func hierarchies() ([]string, error) {
	data, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var dirs []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 2 && (f[2] == "cgroup" || f[2] == "cgroup2") && strings.HasPrefix(f[1], cgroupRoot) {
			dirs = append(dirs, f[1])
		}
	}
	if len(dirs) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted below " + cgroupRoot)
	}
	return dirs, nil
}

// makeCgroup creates the cgroup in all hierarchies. A new cpuset of version 1 is empty and accepts
// no process before it is configured. In version 2, a cgroup has the controllers that its parent
// delegates; kubelet needs all.
func makeCgroup(path string) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range dirs {
		current := hierarchy
		for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
			parent := current
			current = filepath.Join(current, name)
			if err := delegate(parent); err != nil {
				return fmt.Errorf("making cgroup: %w", err)
			}
			if err := os.Mkdir(current, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making cgroup: %w", err)
			}
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				if err := inherit(parent, current, file); err != nil {
					return fmt.Errorf("making cgroup: %w", err)
				}
			}
		}
	}
	return nil
}

// delegate delegates all controllers of a version 2 cgroup to its children.
func delegate(cgroup string) error {
	data, err := os.ReadFile(filepath.Join(cgroup, "cgroup.controllers"))
	controllers := strings.Fields(string(data))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(controllers) == 0 {
		return nil
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(cgroup, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0)
	}
	return err
}

// inherit copies the parent's file in a version 1 hierarchy that has it.
func inherit(parent, child, file string) error {
	data, err := os.ReadFile(filepath.Join(parent, file))
	if errors.Is(err, fs.ErrNotExist) || len(strings.TrimSpace(string(data))) == 0 {
		return nil
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(child, file), data, 0)
	}
	return err
}

// cgroupProcesses returns the processes in the cgroup and its children.
func cgroupProcesses(path string) (pids []int, err error) {
	dirs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	seen := map[int]bool{}
	for _, hierarchy := range dirs {
		err := filepath.WalkDir(filepath.Join(hierarchy, path), func(file string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !d.IsDir() {
				return nil
			}
			if err != nil {
				return err
			}
			data, err := os.ReadFile(filepath.Join(file, "cgroup.procs"))
			for _, field := range strings.Fields(string(data)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !seen[pid] {
					seen[pid] = true
					pids = append(pids, pid)
				}
			}
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil // gone meanwhile
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// removeCgroup kills the cgroup's processes and removes it.
func removeCgroup(path string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		pids, err := cgroupProcesses(path)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroup %s: processes do not end: %v", path, pids)
		}
		for _, pid := range pids {
			unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond) // the kernel sends no event for the end of other processes' children
	}
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range dirs {
		if err := removeCgroupDir(filepath.Join(hierarchy, path), deadline); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroupDir removes the directories, the deepest first. A cgroup stays busy briefly after its
// last process has ended.
func removeCgroupDir(dir string, deadline time.Time) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroupDir(filepath.Join(dir, e.Name()), deadline); err != nil {
				return err
			}
		}
	}
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
