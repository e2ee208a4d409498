package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/ctl/kube"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Workloads of Contiv. The label app of their pods has the same name.
var workloads = []string{"contiv-etcd", "contiv-ksr", "contiv-agent", "contiv-vpp"}

// Install installs Contiv and returns when all its pods and all nodes are ready, or, when ctx ends,
// an error that names the missing parts.
func (c *Cluster) Install(ctx context.Context, m Manifests) error {
	if err := c.reachable(ctx); err != nil {
		return err
	}
	if _, installed, err := c.agent(ctx); err != nil {
		return err
	} else if installed {
		return errors.New("the cluster already has Contiv: use contivctl upgrade")
	}
	return c.put(ctx, m, every)
}

// Upgrade replaces an installed Contiv, however it was installed. It keeps images and configuration
// files that m does not name.
func (c *Cluster) Upgrade(ctx context.Context, m Manifests) error {
	whole, err := c.upgraded(ctx, m)
	if err != nil {
		return err
	}
	return c.put(ctx, whole, m.names)
}

// PrintUpgrade prints the objects that Upgrade applies.
func (c *Cluster) PrintUpgrade(ctx context.Context, out io.Writer, m Manifests) error {
	whole, err := c.upgraded(ctx, m)
	if err != nil {
		return err
	}
	return printObjects(ctx, out, &whole, m.names)
}

// upgraded returns m completed with the cluster's settings.
func (c *Cluster) upgraded(ctx context.Context, m Manifests) (Manifests, error) {
	if err := c.reachable(ctx); err != nil {
		return m, err
	}
	agent, installed, err := c.agent(ctx)
	if err != nil {
		return m, err
	}
	if !installed {
		return m, errors.New("the cluster does not have Contiv: use contivctl install")
	}
	if m.Image == "" {
		m.Image = agent.Spec.Template.Spec.Containers[0].Image
	}
	return m, c.keep(ctx, &m)
}

// put applies the objects and waits. Configuration files for which checked returns true must be
// valid.
func (c *Cluster) put(ctx context.Context, m Manifests, checked func(file string) bool) error {
	objects, err := m.objects(ctx)
	if err == nil {
		err = checkConfiguration(objects, checked)
	}
	if err == nil {
		err = c.apply(ctx, objects)
	}
	if err != nil {
		return err
	}
	return c.await(ctx)
}

// agent returns the DaemonSet of the kernel nodes.
func (c *Cluster) agent(ctx context.Context) (agent *appsv1.DaemonSet, installed bool, err error) {
	agent, err = kube.Get[appsv1.DaemonSet](ctx, c.ours(kube.DaemonSets), "contiv-agent")
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return agent, err == nil, err
}

// keep adds the cluster's settings that m does not name.
func (c *Cluster) keep(ctx context.Context, m *Manifests) error {
	vpp, err := kube.Get[appsv1.DaemonSet](ctx, c.ours(kube.DaemonSets), "contiv-vpp")
	switch {
	case err == nil:
		m.VPP = true
		if m.VPPImage == "" {
			m.VPPImage = vpp.Spec.Template.Spec.Containers[0].Image
		}
	case !apierrors.IsNotFound(err):
		return err
	}
	etcd, err := kube.Get[appsv1.StatefulSet](ctx, c.ours(kube.StatefulSets), "contiv-etcd")
	switch {
	case apierrors.IsNotFound(err):
		m.WithoutEtcd = true
	case err != nil:
		return err
	case etcd.Spec.Replicas != nil && *etcd.Spec.Replicas > 1 && m.Files != nil:
		return fmt.Errorf("etcd has %d members, which --manifests does not support: drop --manifests", *etcd.Spec.Replicas)
	}
	files := map[string]string{}
	for _, name := range []string{"contiv-config", "contiv-vpp-config"} {
		config, err := c.configMap(ctx, name)
		if err != nil {
			return err
		}
		for file, text := range config {
			if loaders[file] != nil {
				files[file] = text
			}
		}
	}
	if !m.WithoutEtcd && isPlainText(files["etcd.conf"]) {
		c.say("etcd now requires certificates: replacing the cluster's etcd.conf, which has none, with the default")
		delete(files, "etcd.conf")
	}
	if m.Files == nil {
		if err := c.keepValues(ctx, m, files); err != nil {
			return err
		}
		if etcd != nil && etcd.Spec.Replicas != nil && *etcd.Spec.Replicas > 1 && valueAt(m.Values, "etcd", "members") == nil {
			return fmt.Errorf("etcd has %d members, but their nodes are unknown: set etcd.members in a file of --values", *etcd.Spec.Replicas)
		}
	}
	maps.Copy(files, m.Config)
	m.Config = files
	return nil
}

// isPlainText reports whether an etcd.conf uses no TLS, as in the first versions.
func isPlainText(conf string) bool {
	var c etcd.Config
	if err := config.Load([]byte(conf), &c); err != nil || len(c.Endpoints) == 0 {
		return false
	}
	return !slices.ContainsFunc(c.Endpoints, func(url string) bool { return !strings.HasPrefix(url, "http://") })
}

// configMap returns the data of a Contiv ConfigMap; nil if none.
func (c *Cluster) configMap(ctx context.Context, name string) (map[string]string, error) {
	m, err := kube.Get[corev1.ConfigMap](ctx, c.ours(kube.ConfigMaps), name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// await reports progress until Contiv's pods and all nodes are ready.
func (c *Cluster) await(ctx context.Context) error {
	told := ""
	return until(ctx, func(ctx context.Context) (string, error) {
		states, done, err := c.rollout(ctx)
		if err != nil {
			return "", err
		}
		nodes, ready, err := c.nodesReady(ctx)
		if err != nil {
			return "", err
		}
		states = append(states, nodes)
		if text := strings.Join(states, ", "); text != told {
			told = text
			c.say("%s", text)
		}
		if done && ready {
			return "", nil
		}
		problems, err := c.problems(ctx)
		if err != nil {
			return "", err
		}
		return strings.Join(append([]string{told}, problems...), "\n"), nil
	})
}

// rollout returns how many pods of each workload are updated and ready.
func (c *Cluster) rollout(ctx context.Context) (states []string, done bool, err error) {
	done = true
	add := func(name string, ready, all int32, current bool) {
		states = append(states, fmt.Sprintf("%s %d/%d", name, ready, all))
		done = done && current && ready >= all
	}
	sets, err := kube.List[appsv1.StatefulSet](ctx, c.ours(kube.StatefulSets), "")
	if err != nil {
		return nil, false, err
	}
	for _, s := range sets {
		if slices.Contains(workloads, s.Name) {
			add(s.Name, min(s.Status.ReadyReplicas, s.Status.UpdatedReplicas), *s.Spec.Replicas, s.Status.ObservedGeneration >= s.Generation)
		}
	}
	daemons, err := kube.List[appsv1.DaemonSet](ctx, c.ours(kube.DaemonSets), "")
	if err != nil {
		return nil, false, err
	}
	for _, d := range daemons {
		if slices.Contains(workloads, d.Name) {
			current := d.Status.ObservedGeneration >= d.Generation
			// KSR runs on the control plane, so no KSR pod is an error.
			current = current && (d.Name != "contiv-ksr" || d.Status.DesiredNumberScheduled > 0)
			add(d.Name, min(d.Status.NumberReady, d.Status.UpdatedNumberScheduled), d.Status.DesiredNumberScheduled, current)
		}
	}
	return states, done, nil
}

func (c *Cluster) nodesReady(ctx context.Context) (state string, done bool, err error) {
	nodes, err := kube.List[corev1.Node](ctx, c.client.Resource(kube.Nodes), "")
	if err != nil {
		return "", false, err
	}
	ready := 0
	for _, n := range nodes {
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return fmt.Sprintf("nodes ready %d/%d", ready, len(nodes)), ready == len(nodes), nil
}

// problems lists the reasons why Contiv's pods are not ready, with remedies.
func (c *Cluster) problems(ctx context.Context) (problems []string, err error) {
	pods, err := kube.List[corev1.Pod](ctx, c.ours(kube.Pods), "app in ("+strings.Join(workloads, ",")+")")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, pod := range pods {
		seen[pod.Labels["app"]] = true
		if p := problem(&pod); p != "" {
			problems = append(problems, p)
		}
	}
	if _, installed, err := c.agent(ctx); err == nil && installed && !seen["contiv-ksr"] {
		problems = append(problems, "no node runs contiv-ksr: "+labelControlPlane)
	}
	slices.Sort(problems)
	return slices.Compact(problems), nil
}

const labelControlPlane = "label the nodes of the control plane: kubectl label node NAME node-role.kubernetes.io/control-plane="

// problem returns the reason why a pod is not ready; "" if it only needs time.
func problem(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			text := pod.Name + ": no node for it: " + condition.Message
			if app := pod.Labels["app"]; app == "contiv-etcd" || app == "contiv-ksr" {
				text += ": " + labelControlPlane
			}
			return text
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		logs := fmt.Sprintf("kubectl -n %s logs %s -c %s", pod.Namespace, pod.Name, s.Name)
		switch waiting := s.State.Waiting; {
		case waiting == nil:
			continue
		case slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}, waiting.Reason):
			return fmt.Sprintf("%s: node %s cannot pull image %s: import it there (make images), or use another image with --image: %s",
				pod.Name, pod.Spec.NodeName, s.Image, waiting.Message)
		case waiting.Reason == "CrashLoopBackOff":
			return fmt.Sprintf("%s: container %s keeps crashing: see %s --previous", pod.Name, s.Name, logs)
		case waiting.Reason == "CreateContainerConfigError", waiting.Reason == "CreateContainerError", waiting.Reason == "RunContainerError":
			return fmt.Sprintf("%s: container %s cannot be created: %s", pod.Name, s.Name, waiting.Message)
		}
	}
	return ""
}
