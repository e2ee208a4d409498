package cniwire

import "strings"

// MissedDelsDir is the folder, beside the agent's socket, of the DELs that came while
// the agent did not run: an empty file for each, named by MissedDel. contiv-cni makes
// the files, the agent removes them when it has made up for the DELs.
const MissedDelsDir = "missed-dels"

// MissedDel is the name of the file for an attachment. Container IDs have no "@",
// names of interfaces no slash.
func MissedDel(containerID, ifName string) string { return containerID + "@" + ifName }

// ParseMissedDel is the inverse of MissedDel.
func ParseMissedDel(file string) (containerID, ifName string, ok bool) {
	return strings.Cut(file, "@")
}
