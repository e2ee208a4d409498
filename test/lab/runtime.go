package lab

import "github.com/containernetworking/cni/libcni"

// Runtime returns a CNI client like that of the node's container runtime. It runs the plugins in
// dirs in the node's network namespace and stores the attachments of pods in cache.
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

// RuntimeIn is Runtime for any network namespace. It writes the durations of calls to the file
// timing, for ReadCNITimings.
func RuntimeIn(netns, timing, cache string, dirs ...string) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(dirs, cache, &nodeExec{netns: netns, timing: timing})
}

// Conflist returns the path of a node's CNI configuration.
func (l *Lab) Conflist(node string) string { return l.nodePath(node, "10-contiv-vpp.conflist") }

// CNISocket returns the path of the CNI socket of a node's agent.
func (l *Lab) CNISocket(node string) string { return l.nodePath(node, "run/cni.sock") }
