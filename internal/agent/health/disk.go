package health

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// Minimum free space for an agent.
const (
	minFreeBytes = 64 << 20
	minFreeShare = 0.02
)

// Disk checks the free space in the directories that the agent writes to.
func Disk(directories ...string) Check {
	return Check{Name: "disk", Look: func(context.Context) (problems []string) {
		for _, directory := range directories {
			var stat unix.Statfs_t
			if err := unix.Statfs(directory, &stat); err != nil {
				continue // the writer reports it
			}
			if text := full(directory, stat.Blocks*uint64(stat.Bsize), stat.Bavail*uint64(stat.Bsize)); text != "" {
				problems = append(problems, text)
			}
		}
		return problems
	}}
}

func full(directory string, size, free uint64) string {
	if size == 0 || free >= minFreeBytes || float64(free) >= minFreeShare*float64(size) && free >= minFreeBytes/4 {
		return ""
	}
	return fmt.Sprintf("the file system of %s has only %d MiB free for the agent's mirror of etcd and pod addresses: free some space", directory, free>>20)
}
