package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/test/lab"
	"golang.org/x/sys/unix"
)

// downTimeout bounds the removal of a cluster whose creation failed.
const downTimeout = 2 * time.Minute

// makeDirectory creates the cluster's directory. It is a shared mount, like the root of a node
// usually: containers that request it see the mounts of containerd below it.
func (c *Cluster) makeDirectory() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(c.dir, c.dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", c.dir, err)
	}
	if err := unix.Mount("", c.dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing the mount %s: %w", c.dir, err)
	}
	for _, dir := range []string{"images", "nodes", "home"} {
		if err := os.Mkdir(c.path(dir), 0o755); err != nil {
			return err
		}
	}
	return c.noteTraces()
}

// Down removes a cluster: processes, cgroups, namespaces, mounts and files. It continues after
// errors and can be repeated. A missing cluster is no error.
func Down(ctx context.Context, name string) error {
	dir := filepath.Join(Root, name)
	var errs []error
	// The kubelets first, because they would restart killed processes.
	if l, err := lab.Open(lab.Options{Name: name}); err == nil {
		errs = append(errs, stopKubelets(ctx, l))
	}
	errs = append(errs,
		removeCgroup(clusterCgroup(name)),
		lab.Down(ctx, lab.Options{Name: name}), // containerd and its shims are processes of the lab
		unmountBelow(dir),
	)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cluster %s is not removed completely: %w", name, err)
	}
	if err := removeTraces(dir); err != nil {
		return err
	}
	// Only if nothing is mounted: it could be a directory of the machine.
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	os.Remove(Root) // if it is empty
	return nil
}

// List returns the names of the clusters with a directory.
func List() []string {
	entries, err := os.ReadDir(Root)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func stopKubelets(ctx context.Context, l *lab.Lab) error {
	state, err := l.State()
	if err != nil {
		return err
	}
	var errs []error
	for role, process := range state.Processes {
		if strings.HasPrefix(role, kubeletRole("")) {
			errs = append(errs, process.Kill())
		}
	}
	return errors.Join(errs...)
}

// unmountBelow unmounts the directory and all mounts below it.
func unmountBelow(dir string) error {
	points, err := mountPoints(dir)
	if err != nil {
		return err
	}
	for _, point := range points {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmounting %s: %w", point, err)
		}
	}
	if points, err = mountPoints(dir); err == nil && len(points) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(points, ", "))
	}
	return err
}

// mountPoints returns the mounts at or below the directory, the deepest and latest first.
func mountPoints(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var points []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape.Replace(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	slices.SortStableFunc(points, func(a, b string) int { return cmp.Compare(strings.Count(b, "/"), strings.Count(a, "/")) })
	return points, nil
}

// unescape reverses mountinfo's escapes in paths.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Leftovers finds the remains of a cluster on this machine, without its records.
func Leftovers(name string) ([]string, error) {
	left, err := lab.Leftovers(lab.Options{Name: name})
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(Root, name)
	mounts, err := mountPoints(dir)
	if err != nil {
		return nil, err
	}
	left = append(left, mounts...)
	if exists(dir) {
		left = append(left, dir)
	}
	dirs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, hierarchy := range dirs {
		if cgroup := filepath.Join(hierarchy, clusterCgroup(name)); exists(cgroup) {
			left = append(left, cgroup)
		}
	}
	return left, nil
}
