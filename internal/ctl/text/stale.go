package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stale lists the nodes that answer from old data because they lost etcd: one line per reason.
func Stale(nodes map[string][]string) (lines []string) {
	const most = 3
	for _, reason := range slices.Sorted(maps.Keys(nodes)) {
		names := slices.Sorted(slices.Values(nodes[reason]))
		if more := len(names) - most; more > 0 {
			names = append(names[:most], fmt.Sprintf("%d more", more))
		}
		lines = append(lines, fmt.Sprintf("Without etcd (%s), later changes are unknown on %s.", strings.TrimPrefix(reason, "etcd: "), strings.Join(names, ", ")))
	}
	return lines
}
