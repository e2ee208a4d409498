package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
)

// State is the content of state.json.
type State struct {
	Name    string    `json:"name"`
	Phase   Phase     `json:"phase"`
	Created time.Time `json:"created"`
	// BootID identifies the boot. Processes of an earlier boot are gone.
	BootID string `json:"bootID"`
	BinDir string `json:"binDir"`
	// Bare is set in labs without Contiv's processes.
	Bare bool `json:"bare,omitempty"`
	// Calico is set if contiv-calico-routes routes between nodes.
	Calico bool `json:"calico,omitempty"`
	// DualStack is set if nodes and pods have IPv4 and IPv6 addresses.
	DualStack bool `json:"dualStack,omitempty"`
	// IPv6 is set if nodes and pods have only IPv6 addresses.
	IPv6 bool `json:"ipv6,omitempty"`
	// TLS is set if etcd requires client certificates.
	TLS bool `json:"tls,omitempty"`
	// VSwitches are assigned to nodes in turn; VPPBin is the path of VPP.
	VSwitches []string `json:"vswitches,omitempty"`
	VPPBin    string   `json:"vppBin,omitempty"`
	// SingleNIC is set if nodes with VPP share their only NIC with it.
	SingleNIC  bool     `json:"singleNIC,omitempty"`
	AgentFlags []string `json:"agentFlags,omitempty"`
	// ContivConfig and ServiceConfig are copied from Options.
	ContivConfig  string `json:"contivConfig,omitempty"`
	ServiceConfig string `json:"serviceConfig,omitempty"`
	// Namespaces holds names, each recorded before its namespace is created.
	Namespaces []string `json:"namespaces"`
	// Processes holds processes by role: "etcd", "ksr", "agent/<node>".
	Processes map[string]Process `json:"processes"`
	Nodes     []Node             `json:"nodes"`
	Pods      []Pod              `json:"pods"`
}

// Phase is a phase in the life of a lab.
type Phase string

const (
	// Starting is the phase of an unfinished or crashed Up.
	Starting Phase = "starting"
	// Running is the phase after Up.
	Running Phase = "running"
	// Stopping is the phase after the start of Down.
	Stopping Phase = "stopping"
)

// Node is one node of a lab.
type Node struct {
	Name string `json:"name"`
	// Index is unique in the lab and starts at 1. It is the last byte of the address.
	Index int `json:"index"`
	// Address is the address on the underlay, e.g. 192.168.16.1/24. It is an IPv6 address in an
	// IPv6-only lab.
	Address netip.Prefix `json:"address"`
	// Address6 is the IPv6 address in a dual-stack lab.
	Address6 netip.Prefix `json:"address6,omitzero"`
	Netns    string       `json:"netns"`
	// VSwitch is "vpp" or empty for the kernel. VPPAddress is VPP's address on the underlay.
	VSwitch    string       `json:"vswitch,omitempty"`
	VPPAddress netip.Prefix `json:"vppAddress,omitzero"`
	// SingleNIC is set if the node shares its NIC, and so its address, with VPP.
	SingleNIC bool `json:"singleNIC,omitempty"`
}

// Pod is one pod of a lab.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	// ContainerID identifies the sandbox, UID the Kubernetes object.
	ContainerID string `json:"containerID"`
	UID         string `json:"uid"`
	Netns       string `json:"netns"`
	// Address is invalid until CNI ADD has succeeded. With Calico, the lab allocates it before ADD.
	Address netip.Addr `json:"address,omitzero"`
	// Address6 is the IPv6 address in a dual-stack lab.
	Address6 netip.Addr `json:"address6,omitzero"`
	// HostPorts are the port mappings passed to CNI.
	HostPorts []HostPort `json:"hostPorts,omitempty"`
}

// HostPort forwards a port of the node to a port of a pod. Its JSON is that of CNI's portMappings.
type HostPort struct {
	HostPort      int32  `json:"hostPort"`
	ContainerPort int32  `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// Addresses returns the addresses of all IP versions.
func (p Pod) Addresses() []netip.Addr {
	if p.Address6.IsValid() {
		return []netip.Addr{p.Address, p.Address6}
	}
	return []netip.Addr{p.Address}
}

// ID returns "<namespace>/<name>", or only the name in the namespace "default".
func (p Pod) ID() string {
	if p.Namespace == DefaultNamespace {
		return p.Name
	}
	return p.Namespace + "/" + p.Name
}

// DefaultNamespace is the default Kubernetes namespace of pods.
const DefaultNamespace = "default"

// Node returns the node with the name.
func (s *State) Node(name string) (Node, error) {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	names := make([]string, len(s.Nodes))
	for i, n := range s.Nodes {
		names[i] = n.Name
	}
	return Node{}, nameError("lab %s has no node %q%s; it has: %s", s.Name, name, didYouMean(name, names), strings.Join(names, " "))
}

// NameError reports an unknown name, or a name that cannot be used.
type NameError struct{ error }

func nameError(format string, args ...any) error {
	return NameError{fmt.Errorf(format, args...)}
}

func didYouMean(name string, known []string) string {
	if near, ok := config.Nearest(name, known); ok && len(name) > 1 {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// Pod returns the pod with the ID ("name" or "namespace/name").
func (s *State) Pod(id string) (Pod, error) {
	if i := s.podIndex(id); i >= 0 {
		return s.Pods[i], nil
	}
	ids := make([]string, len(s.Pods))
	for i, p := range s.Pods {
		ids[i] = p.ID()
	}
	return Pod{}, nameError("lab %s has no pod %q%s; %s lists the pods", s.Name, id, didYouMean(strings.TrimPrefix(id, DefaultNamespace+"/"), ids), Command(s.Name, "status"))
}

// nameable returns an error if the name would be ambiguous in commands.
func (s *State) nameable(kind, name string) error {
	if name == OutsideName {
		return nameError("%q is reserved for the host outside of the cluster: give the %s another name", name, kind)
	}
	if _, err := s.Node(name); err == nil && kind == "pod" {
		return nameError("lab %s has a node %s: give the pod another name, since commands take both", s.Name, name)
	}
	if pod, err := s.Pod(name); err == nil && kind == "node" {
		return nameError("lab %s has a pod %s: give the node another name, since commands take both", s.Name, pod.ID())
	}
	return nil
}

func (s *State) podIndex(id string) int {
	id = strings.TrimPrefix(id, DefaultNamespace+"/")
	return slices.IndexFunc(s.Pods, func(p Pod) bool { return p.ID() == id })
}

// PodsOf returns the pods of a node.
func (s *State) PodsOf(node string) []Pod {
	var pods []Pod
	for _, p := range s.Pods {
		if p.Node == node {
			pods = append(pods, p)
		}
	}
	return pods
}

// Underlay returns the name of the namespace with the router, etcd and KSR.
func (s *State) Underlay() string { return s.Name + "-underlay" }

// Outside returns the name of the namespace of the host outside of the cluster.
func (s *State) Outside() string { return s.Name + "-outside" }

// ErrNoLab is wrapped by errors about a lab that does not exist.
var ErrNoLab = errors.New("no such lab")

const stateFile = "state.json"

func readState(dir string) (*State, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("%w: lab %s belongs to another user: run the command as root", err, filepath.Base(dir))
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s (%s makes one, contiv-lab list shows the existing labs)", ErrNoLab, filepath.Base(dir), Command(filepath.Base(dir), "up"))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the lab: %w", err)
	}
	st := &State{}
	if err := json.Unmarshal(data, st); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, stateFile), err)
	}
	if st.Processes == nil {
		st.Processes = map[string]Process{}
	}
	return st, nil
}

func (s *State) write(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(dir, stateFile, append(data, '\n')); err != nil {
		return fmt.Errorf("writing the state of the lab: %w", err)
	}
	return nil
}

// writeFile replaces the file below dir atomically. The temporary file is in dir itself, because
// other processes may watch the directory of the file.
func writeFile(dir, file string, data []byte) error {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, file))
}

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
