package models

import (
	"testing"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
)

func TestNetNSPath(t *testing.T) {
	for _, test := range []struct {
		ref  *linux_namespace.NetNamespace
		path string
		ok   bool
	}{
		{nil, "", true},
		{&linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: "/run/x"}, "/run/x", true},
		{&linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_PID, Reference: "17"}, "/proc/17/ns/net", true},
		{&linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: "pod"}, "/var/run/netns/pod", true},
		{&linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_MICROSERVICE, Reference: "m"}, "", false},
	} {
		if path, ok := NetNSPath(test.ref, NetNSDir); path != test.path || ok != test.ok {
			t.Errorf("%v: %q, %v", test.ref, path, ok)
		}
	}
}
