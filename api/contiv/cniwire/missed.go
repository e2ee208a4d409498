package cniwire

import "strings"

// MissedDelsDir is the directory, next to the agent's socket, of the DELs received while the agent
// was not running: an empty file named by MissedDel for each. contiv-cni creates the files; the
// agent removes them after handling the DELs.
const MissedDelsDir = "missed-dels"

// MissedDel returns the file name of an attachment. Container IDs have no "@", names of interfaces
// no slash.
func MissedDel(containerID, ifName string) string { return containerID + "@" + ifName }

// ParseMissedDel is the inverse of MissedDel.
func ParseMissedDel(file string) (containerID, ifName string, ok bool) {
	return strings.Cut(file, "@")
}
