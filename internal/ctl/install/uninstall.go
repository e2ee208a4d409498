package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/ctl/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// secrets lists the Secrets created by KSR.
var secrets = []string{"contiv-etcd-ca", "contiv-etcd-server"}

// Uninstall removes Contiv from the cluster and its nodes, however it was installed: all objects of
// m, the network, the CNI plugin, and, unless keepState is set, the data of etcd and the agents on
// disk. Running pods lose their network.
func (c *Cluster) Uninstall(ctx context.Context, m Manifests, keepState bool) error {
	r, err := c.removal(ctx, m, keepState)
	if err != nil {
		return err
	}
	if err := c.stop(ctx); err != nil {
		return err
	}
	c.say("removing Contiv from %d nodes", len(r.nodes))
	if _, err := c.onNodes(ctx, "contiv-uninstall", r.nodes, r.filtered, r.clean); err != nil {
		return fmt.Errorf("%w: no objects were deleted; run contivctl uninstall again", err)
	}
	if err := c.delete(ctx, r.objects); err != nil {
		return err
	}
	return c.removeRemnants(ctx)
}

// removal has everything that Uninstall removes.
type removal struct {
	objects  []*unstructured.Unstructured // some may not exist
	nodes    []string
	clean    func(node string) *corev1.PodSpec // the pod that cleans a node
	filtered bool                              // the objects have passed the filter
}

func (c *Cluster) removal(ctx context.Context, m Manifests, keepState bool) (r removal, err error) {
	if err := c.reachable(ctx); err != nil {
		return r, err
	}
	m.VPP, m.PostRenderer = true, "" // missing objects are skipped
	if m.Files == nil {
		if m.Values, err = c.chosenValues(ctx); err != nil {
			return r, err
		}
	}
	if r.objects, err = m.objects(ctx); err != nil {
		return r, err
	}
	if r.clean, r.filtered, err = c.cleaners(ctx, r.objects, keepState); err != nil {
		return r, err
	}
	r.nodes, err = c.nodeNames(ctx)
	return r, err
}

// PrintRemoval is the dry run of Uninstall.
func (c *Cluster) PrintRemoval(ctx context.Context, out io.Writer, m Manifests, keepState bool) error {
	r, err := c.removal(ctx, m, keepState)
	if err != nil {
		return err
	}
	for _, node := range r.nodes {
		what := []string{"the CNI plugin", "the network"}
		if !keepState {
			what = append(what, "/var/bolt", "/var/run/contiv")
		}
		for _, container := range r.clean(node).InitContainers {
			if len(container.Command) > 0 && container.Command[0] == "rm" {
				what = append(what, container.Command[len(container.Command)-1])
			}
		}
		fmt.Fprintf(out, "node %s loses %s\n", node, strings.Join(what, ", "))
	}
	pods, err := kube.List[corev1.Pod](ctx, c.client.Resource(kube.Pods), "")
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if !pod.Spec.HostNetwork && pod.Status.Phase == corev1.PodRunning {
			fmt.Fprintf(out, "Pod %s/%s on node %s loses its network\n", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
	present, err := c.present(ctx, r.objects)
	if err != nil {
		return err
	}
	left, err := c.remnants(ctx)
	if err != nil {
		return err
	}
	for _, l := range left {
		present = append(present, l.name)
	}
	for _, name := range present {
		fmt.Fprintf(out, "%s is deleted\n", name)
	}
	return nil
}

// stop ends all pods of Contiv. Their workloads stay for a repeated Uninstall.
func (c *Cluster) stop(ctx context.Context) error {
	const noNode = `{"spec":{"template":{"spec":{"nodeSelector":{"contivpp.io/uninstalled":"true"}}}}}`
	patch := metav1.PatchOptions{FieldManager: manager}
	for _, name := range workloads {
		_, err := c.ours(kube.DaemonSets).Patch(ctx, name, types.StrategicMergePatchType, []byte(noNode), patch)
		if apierrors.IsNotFound(err) {
			_, err = c.ours(kube.StatefulSets).Patch(ctx, name, types.StrategicMergePatchType, []byte(`{"spec":{"replicas":0}}`), patch)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("stop %s: %w", name, err)
		}
	}
	return c.awaitNoPods(ctx)
}

func (c *Cluster) awaitNoPods(ctx context.Context) error {
	selector := "app in (" + strings.Join(workloads, ",") + ")"
	return until(ctx, func(ctx context.Context) (string, error) {
		pods, err := kube.List[corev1.Pod](ctx, c.ours(kube.Pods), selector)
		if err != nil || len(pods) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d pods of Contiv did not stop, such as %s on node %s", len(pods), pods[0].Name, pods[0].Spec.NodeName), nil
	})
}

// cleaners returns the pods that remove Contiv from a node: copies of the agents' pods with other
// commands. If the cluster has no agents, it uses the unfiltered objects.
func (c *Cluster) cleaners(ctx context.Context, objects []*unstructured.Unstructured, keepState bool) (clean func(node string) *corev1.PodSpec, filtered bool, err error) {
	templates, err := c.templates(ctx)
	if err != nil {
		return nil, false, err
	}
	filtered = templates["contiv-agent"] != nil
	if !filtered {
		if templates, err = templatesOf(objects); err != nil {
			return nil, false, err
		}
	}
	nodes, err := kube.List[corev1.Node](ctx, c.client.Resource(kube.Nodes), "")
	if err != nil {
		return nil, false, err
	}
	specs := map[string]*corev1.PodSpec{}
	for _, n := range nodes {
		agent := templates["contiv-agent"]
		if vpp := templates["contiv-vpp"]; vpp != nil && n.Labels["contivpp.io/vswitch"] == "vpp" {
			agent = vpp
		}
		specs[n.Name] = cleaner(agent, keepState)
		if etcd := templates["contiv-etcd"]; etcd != nil && !keepState && labels.SelectorFromSet(etcd.NodeSelector).Matches(labels.Set(n.Labels)) {
			if err := cleanEtcd(specs[n.Name], etcd); err != nil {
				return nil, false, err
			}
		}
	}
	return func(node string) *corev1.PodSpec { return specs[node] }, filtered, nil
}

// templates returns the pod templates of the existing workloads.
func (c *Cluster) templates(ctx context.Context) (map[string]*corev1.PodSpec, error) {
	found := map[string]*corev1.PodSpec{}
	daemons, err := kube.List[appsv1.DaemonSet](ctx, c.ours(kube.DaemonSets), "")
	if err != nil {
		return nil, err
	}
	for _, d := range daemons {
		found[d.Name] = &d.Spec.Template.Spec
	}
	sets, err := kube.List[appsv1.StatefulSet](ctx, c.ours(kube.StatefulSets), "")
	if err != nil {
		return nil, err
	}
	for _, s := range sets {
		found[s.Name] = &s.Spec.Template.Spec
	}
	return found, nil
}

func templatesOf(objects []*unstructured.Unstructured) (map[string]*corev1.PodSpec, error) {
	found := map[string]*corev1.PodSpec{}
	for _, o := range objects {
		fields, ok, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if !ok {
			continue
		}
		spec := &corev1.PodSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec); err != nil {
			return nil, fmt.Errorf("%s: %w", name(o), err)
		}
		found[o.GetName()] = spec
	}
	return found, nil
}

// cleaner returns an agent's pod with other commands. They remove the CNI plugin first, so that the
// node accepts no more pods, then the network.
func cleaner(agent *corev1.PodSpec, keepState bool) *corev1.PodSpec {
	spec := agent.DeepCopy()
	var containers []corev1.Container
	for _, c := range spec.Containers {
		switch c.Name {
		case "cni":
			c.Command, c.Args = []string{"contiv-cni", "uninstall"}, nil
			spec.InitContainers = append(spec.InitContainers, c)
		case "agent":
			script := "contiv-agent uninstall\n" // no --yes: a pod has no terminal, and older agents do not know the flag
			if len(c.Command) > 0 && c.Command[0] == "contiv-init" {
				script = "" // the network ended with VPP
			}
			if !keepState {
				script += "rm -rf /var/bolt/* /var/run/contiv/*\n"
			}
			c.Command, c.Args = []string{"sh", "-ec"}, []string{script}
			containers = append(containers, c)
		}
	}
	spec.Containers = containers
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			list[i].LivenessProbe, list[i].ReadinessProbe, list[i].TerminationMessagePath, list[i].Ports = nil, nil, "", nil
		}
	}
	spec.Affinity, spec.NodeSelector = nil, nil
	// The account and the configuration may already be deleted.
	spec.ServiceAccountName, spec.DeprecatedServiceAccount, spec.AutomountServiceAccountToken = "default", "", new(bool)
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "token" })
	for i := range spec.Volumes {
		if m := spec.Volumes[i].ConfigMap; m != nil {
			m.Optional = new(true)
		}
		if p := spec.Volumes[i].Projected; p != nil {
			for j := range p.Sources {
				if m := p.Sources[j].ConfigMap; m != nil {
					m.Optional = new(true)
				}
			}
		}
	}
	return spec
}

// cleanEtcd makes the pod remove etcd's data too.
func cleanEtcd(spec, etcd *corev1.PodSpec) error {
	c := *etcd.Containers[0].DeepCopy()
	dir := ""
	for word := range strings.FieldsSeq(strings.Join(slices.Concat(c.Command, c.Args), " ")) {
		if value, ok := strings.CutPrefix(word, "--data-dir="); ok {
			dir = value
		}
	}
	if !strings.HasPrefix(dir, "/") {
		return errors.New("StatefulSet contiv-etcd has no --data-dir")
	}
	c.Command, c.Args = []string{"rm", "-rf", dir}, nil
	c.LivenessProbe, c.ReadinessProbe, c.Ports = nil, nil, nil
	// The directory belongs to etcd's user, its parent to root.
	c.SecurityContext = &corev1.SecurityContext{
		RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"DAC_OVERRIDE"}},
	}
	onHost := map[string]bool{}
	for _, v := range etcd.Volumes {
		if v.HostPath == nil { // the certificates
			continue
		}
		onHost[v.Name] = true
		if !slices.ContainsFunc(spec.Volumes, func(w corev1.Volume) bool { return w.Name == v.Name }) {
			spec.Volumes = append(spec.Volumes, v)
		}
	}
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return !onHost[m.Name] })
	spec.InitContainers = append(spec.InitContainers, c)
	return nil
}
