package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stale says which nodes answer from what they knew before they lost etcd: a line for each reason why they lost it.
func Stale(nodes map[string][]string) (lines []string) {
	const most = 3
	for _, reason := range slices.Sorted(maps.Keys(nodes)) {
		names := slices.Sorted(slices.Values(nodes[reason]))
		if more := len(names) - most; more > 0 {
			names = append(names[:most], fmt.Sprintf("%d more", more))
		}
		lines = append(lines, fmt.Sprintf("Without etcd (%s), what has changed since is not known on %s.", strings.TrimPrefix(reason, "etcd: "), strings.Join(names, ", ")))
	}
	return lines
}
