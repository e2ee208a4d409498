package lab

import "github.com/containernetworking/cni/libcni"

// Runtime returns what a container runtime of the node calls CNI plugins with:
// those in the folders, executed in the node's network namespace. What it knows
// of its pods is in the cache folder.
func (l *Lab) Runtime(node, cache string, dirs ...string) (*libcni.CNIConfig, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	n, err := st.Node(node)
	if err != nil {
		return nil, err
	}
	return RuntimeIn(NetnsPath(n.Netns), l.timingFile(node), cache, dirs...), nil
}

// RuntimeIn is Runtime for any network namespace. What calls take is written to
// the file timing, for ReadCNITimings.
func RuntimeIn(netns, timing, cache string, dirs ...string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(dirs, cache, &nodeExec{netns: netns, timing: timing})
}

// Conflist is the path of the CNI configuration of a node.
func (l *Lab) Conflist(node string) string { return l.nodePath(node, "10-contiv-vpp.conflist") }

// CNISocket is the path of the socket of a node's agent for CNI requests.
func (l *Lab) CNISocket(node string) string { return l.nodePath(node, "run/cni.sock") }
