package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ControlPlaneNode is the node with the control plane's pods.
const ControlPlaneNode = "node1"

// netnsVolume is the runtime's directory of pod network namespaces.
const netnsVolume = "/var/run/netns"

// devices are the machine's, shared by all nodes.
const devices = "/dev"

// Install installs Contiv from its manifests, and CoreDNS, and returns when all nodes are ready and
// names are resolved.
func (c *Cluster) Install(ctx context.Context) error {
	if _, err := c.Kubectl(ctx, "label", "node", ControlPlaneNode, "node-role.kubernetes.io/control-plane="); err != nil {
		return err
	}
	if err := c.labelVPP(ctx); err != nil {
		return err
	}
	for _, file := range c.opts.Manifests {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		adapted, err := c.adapt(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		c.progress("applying %s", filepath.Base(file))
		if _, err := c.KubectlInput(ctx, bytes.NewReader(adapted), "apply", "-f", "-"); err != nil {
			return err
		}
	}
	if err := c.applyDNS(ctx); err != nil {
		return err
	}
	c.progress("awaiting Contiv and the nodes")
	for _, workload := range []string{"statefulset/contiv-etcd", "daemonset/contiv-ksr", "daemonset/contiv-agent", "daemonset/contiv-vpp"} {
		if _, err := c.Kubectl(ctx, "rollout", "status", "-n", "kube-system", workload, "--timeout=3m"); err != nil {
			return err
		}
	}
	if _, err := c.Kubectl(ctx, "wait", "node", "--all", "--for=condition=Ready", "--timeout=1m"); err != nil {
		return err
	}
	return c.awaitDNS(ctx)
}

// Adapt adapts manifests to the cluster. contivctl and Helm call it as a post-renderer.
func (c *Cluster) Adapt(manifests []byte) ([]byte, error) { return c.adapt(manifests) }

// adapt adapts the manifests to a machine that represents several nodes. All nodes share one file
// system, so a node's path moves below the node's directory:
//
//	hostPath /var/run/contiv ──> <cluster>/nodes, of which $(NODE_NAME)/var/run/contiv is mounted
//	hostPath /var/run/netns  ──> <cluster>/nodes, where the runtimes are told to keep namespaces
func (c *Cluster) adapt(manifests []byte) ([]byte, error) {
	var adapted bytes.Buffer
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return adapted.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		if err := c.adaptObject(object); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		adapted.WriteString("---\n")
		adapted.Write(data)
	}
}

func (c *Cluster) adaptObject(object *unstructured.Unstructured) error {
	if object.GetKind() == "ConfigMap" {
		return c.adaptConfig(object)
	}
	path := []string{"spec", "template", "spec"}
	if object.GetKind() == "Pod" {
		path = []string{"spec"}
	}
	fields, found, err := unstructured.NestedMap(object.Object, path...)
	if err != nil || !found {
		return err
	}
	var spec corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &spec); err != nil {
		return err
	}
	c.adaptPod(&spec)
	if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&spec); err != nil {
		return err
	}
	return unstructured.SetNestedMap(object.Object, fields, path...)
}

// nodesVolume is the volume with all nodes' directories. It is mounted at its path on the machine,
// so that paths mean the same to runtime and agent.
const nodesVolume = "e2e-nodes"

// nodeVariable is the environment variable with the node's name.
const nodeVariable = "NODE_NAME"

func (c *Cluster) adaptPod(spec *corev1.PodSpec) {
	moved := map[string]string{}
	for i, v := range spec.Volumes {
		if v.HostPath != nil && v.HostPath.Path != devices {
			moved[v.Name] = v.HostPath.Path
			spec.Volumes[i].HostPath = &corev1.HostPathVolumeSource{Path: c.path("nodes")}
		}
	}
	if len(moved) == 0 {
		return
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{
		Name:         nodesVolume,
		VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: c.path("nodes")}},
	})
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c.adaptContainer(&containers[i], moved)
		}
	}
}

func (c *Cluster) adaptContainer(container *corev1.Container, moved map[string]string) {
	propagation := corev1.MountPropagationHostToContainer
	mounts := []corev1.VolumeMount{{Name: nodesVolume, MountPath: c.path("nodes"), MountPropagation: &propagation}}
	for _, mount := range container.VolumeMounts {
		path, ok := moved[mount.Name]
		if path == netnsVolume {
			continue
		}
		if ok {
			mount.SubPathExpr = "$(NODE_NAME)" + path
		}
		mounts = append(mounts, mount)
	}
	container.VolumeMounts = mounts
	if !slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == nodeVariable }) {
		container.Env = append(container.Env, corev1.EnvVar{
			Name: nodeVariable, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}},
		})
	}
	// Arguments "--name=path" with a path in the node's view.
	for _, words := range [][]string{container.Command, container.Args} {
		for i, word := range words {
			name, value, _ := strings.Cut(word, "=")
			for _, path := range moved {
				if strings.HasPrefix(value, path+"/") {
					words[i] = name + "=" + c.path("nodes") + "/$(NODE_NAME)" + value
				}
			}
		}
	}
}
