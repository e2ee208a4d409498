package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PodSpec describes a pod to add.
type PodSpec struct {
	// Namespace defaults to "default".
	Namespace string
	Name      string
	// Node defaults to the node with the fewest pods.
	Node string
	// Template holds labels, annotations and other fields of the Kubernetes object; optional. The
	// lab passes its host ports to CNI.
	Template *corev1.Pod
}

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

const maxPodName, maxNamespace = 253, 63

// ParsePodID splits "name" or "namespace/name".
func ParsePodID(id string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(id, "/")
	if !ok {
		namespace, name = DefaultNamespace, id
	}
	if !dnsName.MatchString(name) || !dnsName.MatchString(namespace) || len(name) > maxPodName || len(namespace) > maxNamespace {
		return "", "", nameError("%q cannot be the name of a pod: NAME or NAMESPACE/NAME of up to %d and %d lower-case letters, digits, dashes and dots, with a letter or a digit at the beginning and the end", id, maxPodName, maxNamespace)
	}
	return namespace, name, nil
}

// Pods returns the pods in the order of their creation.
func (l *Lab) Pods() ([]Pod, error) {
	st, err := l.State()
	if err != nil {
		return nil, err
	}
	return st.Pods, nil
}

// AddPod adds a pod as a kubelet and a runtime would: it writes the Kubernetes object, creates the
// network namespace, calls CNI ADD, and reports the address in the object's status. If ADD fails,
// AddPod calls CNI DEL and removes everything.
func (l *Lab) AddPod(ctx context.Context, spec PodSpec) (Pod, error) {
	pods, err := l.AddPods(ctx, 1, spec)
	if err != nil {
		return Pod{}, err
	}
	return pods[0], nil
}

// AddPods adds up to parallel pods at once. It returns the added pods, even if some failed.
func (l *Lab) AddPods(ctx context.Context, parallel int, specs ...PodSpec) ([]Pod, error) {
	var added []Pod
	err := l.change(ctx, func(st *State) error {
		var todo []newPod
		for _, spec := range specs {
			pod, node, err := l.reservePod(st, spec)
			if err != nil {
				return errors.Join(err, l.forgetPods(st, todo))
			}
			todo = append(todo, newPod{pod, node, spec.Template, l.network(st, pod, node)})
		}
		if err := st.write(l.dir); err != nil {
			return err
		}
		if err := l.writeCalico(ctx, st, nodesOf(todo)...); err != nil {
			return errors.Join(err, l.forgetPods(st, todo))
		}
		errs := make([]error, len(todo))
		atOnce(parallel, len(todo), func(i int) { errs[i] = l.wirePod(ctx, &todo[i]) })
		var failed []newPod
		for i, p := range todo {
			if errs[i] != nil {
				failed = append(failed, p)
				continue
			}
			st.Pods[st.podIndex(p.pod.ID())] = p.pod
			added = append(added, p.pod)
		}
		if len(failed) == 0 {
			return nil
		}
		return errors.Join(errors.Join(errs...), l.forgetPods(st, failed), l.writeCalico(ctx, st, nodesOf(failed)...))
	})
	return added, err
}

type newPod struct {
	pod      Pod
	node     Node
	template *corev1.Pod
	network  podNetwork
}

func nodesOf(pods []newPod) []string {
	var names []string
	for _, p := range pods {
		if !slices.Contains(names, p.node.Name) {
			names = append(names, p.node.Name)
		}
	}
	return names
}

type podNetwork interface {
	// add returns the pod's addresses, at least one.
	add(context.Context) ([]netip.Addr, error)
	del(context.Context) error
}

func (l *Lab) network(st *State, pod Pod, node Node) podNetwork {
	if st.Calico {
		return calicoPod{pod, node}
	}
	return l.cni(pod, node)
}

func (l *Lab) reservePod(st *State, spec PodSpec) (Pod, Node, error) {
	if spec.Namespace == "" {
		spec.Namespace = DefaultNamespace
	}
	if _, _, err := ParsePodID(spec.Namespace + "/" + spec.Name); err != nil {
		return Pod{}, Node{}, err
	}
	if err := st.nameable("pod", spec.Name); err != nil {
		return Pod{}, Node{}, err
	}
	pod := Pod{Namespace: spec.Namespace, Name: spec.Name, Node: spec.Node, ContainerID: randomHex(32), UID: randomUID(), HostPorts: hostPorts(spec.Template)}
	if spec.Template != nil && spec.Template.UID != "" {
		pod.UID = string(spec.Template.UID)
	}
	if st.podIndex(pod.ID()) >= 0 {
		return Pod{}, Node{}, fmt.Errorf("lab %s has a pod %s already", st.Name, pod.ID())
	}
	if pod.Node == "" {
		pod.Node = leastUsedNode(st)
	}
	node, err := st.Node(pod.Node)
	if err != nil {
		return Pod{}, Node{}, err
	}
	pod.Netns = st.Name + "-" + pod.Node + "-" + pod.Name
	if pod.Namespace != DefaultNamespace {
		pod.Netns += "_" + pod.Namespace
	}
	pod.Netns = fileName(pod.Netns)
	if slices.Contains(st.Namespaces, pod.Netns) {
		return Pod{}, Node{}, fmt.Errorf("pod %s on node %s would use network namespace %s, which belongs to something else of the lab; rename it", pod.ID(), pod.Node, pod.Netns)
	}
	if err := checkUnused(pod.Netns); err != nil {
		return Pod{}, Node{}, err
	}
	if st.Calico {
		if err := st.reserveCalicoAddresses(&pod, node); err != nil {
			return Pod{}, Node{}, err
		}
	}
	st.Namespaces = append(st.Namespaces, pod.Netns)
	st.Pods = append(st.Pods, pod)
	return pod, node, nil
}

// hostPorts returns the port mappings for CNI. The protocol defaults to TCP, as in an API server.
func hostPorts(template *corev1.Pod) (list []HostPort) {
	if template == nil {
		return nil
	}
	for _, container := range template.Spec.Containers {
		for _, p := range container.Ports {
			if p.HostPort != 0 {
				list = append(list, HostPort{p.HostPort, p.ContainerPort, strings.ToLower(string(cmp.Or(p.Protocol, corev1.ProtocolTCP))), p.HostIP})
			}
		}
	}
	return list
}

// leastUsedNode returns "" in a lab without nodes.
func leastUsedNode(st *State) string {
	name, fewest := "", 0
	for _, n := range st.Nodes {
		if pods := len(st.PodsOf(n.Name)); name == "" || pods < fewest {
			name, fewest = n.Name, pods
		}
	}
	return name
}

// wirePod makes the pod. After an error it leaves only the pod's entry in the state.
func (l *Lab) wirePod(ctx context.Context, p *newPod) error {
	if m := namespaceManifest(p.pod.Namespace); !l.hasManifest(m.file) { // an applied namespace keeps its labels
		if err := l.writeManifest(m); err != nil {
			return err
		}
	}
	if err := l.writeManifest(podManifest(p.pod, p.node, p.template)); err != nil {
		return err
	}
	err := run("ip", "netns", "add", p.pod.Netns)
	if err != nil {
		return errors.Join(err, l.removeManifest(manifestName("Pod", p.pod.Namespace, p.pod.Name)))
	}
	result, err := p.network.add(ctx)
	if err != nil {
		// Like a runtime, call DEL after a failed ADD, with a new timeout.
		hangs := errors.Is(err, context.DeadlineExceeded)
		patience := cniTimeout
		if hangs { // an agent that timed out will probably not answer
			patience = time.Second / 2
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		undone := p.network.del(undo)
		if hangs && errors.Is(undone, context.DeadlineExceeded) {
			undone = nil
		}
		return errors.Join(
			fmt.Errorf("CNI ADD of pod %s: %w", p.pod.ID(), err),
			undone,
			deleteNetns(p.pod.Netns),
			l.removeManifest(manifestName("Pod", p.pod.Namespace, p.pod.Name)))
	}
	p.pod.Address = result[0]
	if len(result) > 1 && result[1].Is6() {
		p.pod.Address6 = result[1]
	}
	return l.writeManifest(podManifest(p.pod, p.node, p.template))
}

// forgetPods removes pods that do not exist from the state.
func (l *Lab) forgetPods(st *State, pods []newPod) error {
	for _, p := range pods {
		if err := deleteNetns(p.pod.Netns); err != nil {
			return err
		}
		st.forgetPod(p.pod)
	}
	return nil
}

// DelPod removes a pod: it calls CNI DEL and removes the pod's processes, network namespace and
// Kubernetes object.
func (l *Lab) DelPod(ctx context.Context, id string) error {
	return l.DelPods(ctx, id)
}

// DelPods removes several pods at once. If some cannot be removed, it still removes the remaining
// ones.
func (l *Lab) DelPods(ctx context.Context, ids ...string) error {
	return l.change(ctx, func(st *State) error {
		var pods []Pod
		for _, id := range ids {
			pod, err := st.Pod(id)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(pods, func(p Pod) bool { return p.ID() == pod.ID() }) {
				pods = append(pods, pod)
			}
		}
		return l.removePods(ctx, st, pods)
	})
}

func (l *Lab) removePods(ctx context.Context, st *State, pods []Pod) error {
	errs := make([]error, len(pods))
	atOnce(4, len(pods), func(i int) { errs[i] = l.unwirePod(ctx, st, pods[i]) })
	for i, pod := range pods {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("removing pod %s: %w", pod.ID(), errs[i])
			continue
		}
		st.forgetPod(pod)
		errs[i] = l.writeCalico(ctx, st, pod.Node) // Calico releases addresses last
	}
	return errors.Join(errs...)
}

func (s *State) forgetPod(pod Pod) {
	s.Namespaces = slices.DeleteFunc(s.Namespaces, func(n string) bool { return n == pod.Netns })
	s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.ContainerID == pod.ContainerID })
}

func (l *Lab) unwirePod(ctx context.Context, st *State, pod Pod) error {
	node, err := st.Node(pod.Node)
	if err != nil {
		return err
	}
	if err := stopAll(netnsProcesses([]string{pod.Netns})); err != nil {
		return err
	}
	if err := l.network(st, pod, node).del(ctx); err != nil {
		return fmt.Errorf("CNI DEL: %w", err)
	}
	return l.dropPod(pod)
}

func (l *Lab) dropPod(pod Pod) error {
	if err := stopAll(netnsProcesses([]string{pod.Netns})); err != nil {
		return err
	}
	if err := deleteNetns(pod.Netns); err != nil {
		return err
	}
	return l.removeManifest(manifestName("Pod", pod.Namespace, pod.Name))
}

// atOnce calls fn for 0 to n-1, up to parallel calls at once, and waits for all.
func atOnce(parallel, n int, fn func(int)) {
	slots := make(chan struct{}, max(parallel, 1))
	var working sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			fn(i)
		})
	}
	working.Wait()
}

func randomHex(bytes int) string {
	data := make([]byte, bytes)
	rand.Read(data)
	return hex.EncodeToString(data)
}

func randomUID() string {
	h := randomHex(16)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}
