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
	plugins := &nodeExec{netns: NetnsPath(n.Netns), timing: l.timingFile(node)}
	return libcni.NewCNIConfigWithCacheDir(dirs, cache, plugins), nil
}

// Conflist is the path of the CNI configuration of a node.
func (l *Lab) Conflist(node string) string { return l.nodePath(node, "10-contiv-vpp.conflist") }

// CNISocket is the path of the socket of a node's agent for CNI requests.
func (l *Lab) CNISocket(node string) string { return l.nodePath(node, "run/cni.sock") }
