package models

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
)

// NetNSDir is the directory of network namespaces named by `ip netns`.
const NetNSDir = "/var/run/netns"

// NetNSPath returns the file of a network namespace; "" is the agent's own. namedDir is the
// directory of named namespaces (NetNSDir). It returns false for a microservice, whose path changes
// with each start.
func NetNSPath(ref *linux_namespace.NetNamespace, namedDir string) (file string, ok bool) {
	switch ref.GetType() {
	case linux_namespace.NetNamespace_UNDEFINED:
		return "", true
	case linux_namespace.NetNamespace_FD:
		return ref.GetReference(), true
	case linux_namespace.NetNamespace_PID:
		return "/proc/" + ref.GetReference() + "/ns/net", true
	case linux_namespace.NetNamespace_NSID:
		return filepath.Join(namedDir, ref.GetReference()), true
	}
	return "", false
}

// maxPath is PATH_MAX without the terminating zero.
const maxPath = 4095

// ValidateNetNS checks the form of a reference to a network namespace.
func ValidateNetNS(ref *linux_namespace.NetNamespace) error {
	text := ref.GetReference()
	if ref.GetType() != linux_namespace.NetNamespace_UNDEFINED {
		switch {
		case linux_namespace.NetNamespace_ReferenceType_name[int32(ref.GetType())] == "":
			return fmt.Errorf("network namespace has the type %d, which does not exist: use NSID, PID, FD or MICROSERVICE", ref.GetType())
		case len(text) > maxPath:
			return fmt.Errorf("reference to a network namespace has %d bytes: no path has more than %d", len(text), maxPath)
		case strings.ContainsFunc(text, unicode.IsControl):
			return fmt.Errorf("reference to a network namespace has control characters: %q", text)
		}
	}
	switch ref.GetType() {
	case linux_namespace.NetNamespace_FD:
		if !filepath.IsAbs(text) {
			return fmt.Errorf("network namespace of type FD needs an absolute path, not %q", text)
		}
	case linux_namespace.NetNamespace_PID:
		if pid, err := strconv.ParseInt(text, 10, 32); err != nil || pid <= 0 {
			return fmt.Errorf("network namespace of type PID needs a process ID, not %q", text)
		}
	case linux_namespace.NetNamespace_NSID:
		if text == "" || text == "." || text == ".." || strings.Contains(text, "/") {
			return fmt.Errorf("network namespace of type NSID needs the name of a file in %s, not %q", NetNSDir, text)
		}
	case linux_namespace.NetNamespace_MICROSERVICE:
		if text == "" || path.Clean("/"+text) != "/"+text {
			return fmt.Errorf("network namespace of type MICROSERVICE needs the label of a microservice, not %q", text)
		}
	}
	return nil
}
