package install

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	service "github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Namespace of the manifests.
const Namespace = "kube-system"

// Images in the manifests.
const (
	DefaultImage    = "docker.io/contiv/contiv:latest"
	DefaultVPPImage = "docker.io/contiv/contiv-vpp:latest"
)

// Manifests describes an installation.
type Manifests struct {
	// Files holds YAML files with objects; nil: the chart is rendered with Values.
	Files fs.FS
	// Values override the chart's defaults.
	Values map[string]any
	// Image and VPPImage replace the images; "" keeps them.
	Image, VPPImage string
	// VPP includes the objects for nodes with VPP.
	VPP bool
	// WithoutEtcd omits etcd; Config then has an etcd.conf for another one.
	WithoutEtcd bool
	// Config replaces configuration files: contiv.conf, etcd.conf and so on.
	Config map[string]string
	// PostRenderer, if not "", is a program that reads all objects as YAML from standard input and
	// prints the objects to apply.
	PostRenderer string
}

// kinds lists the kinds in the order of application.
var kinds = []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap", "Service", "StatefulSet", "DaemonSet"}

// objects returns the objects to apply, in order.
func (m *Manifests) objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	files, err := m.files()
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "contiv-vpp.yaml" && !m.VPP {
			continue
		}
		some, err := decode(files[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, some...)
	}
	if m.WithoutEtcd {
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetLabels()["app"] == "contiv-etcd" })
	}
	if err := m.configure(objects); err != nil {
		return nil, err
	}
	for _, o := range objects {
		m.setImages(o)
		if err := stampConfiguration(o, objects); err != nil {
			return nil, err
		}
	}
	if objects, err = filter(ctx, m.PostRenderer, objects); err != nil {
		return nil, err
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(slices.Index(kinds, a.GetKind()), slices.Index(kinds, b.GetKind()))
	})
	return objects, nil
}

// files returns the manifests, by name.
func (m *Manifests) files() (map[string][]byte, error) {
	if m.Files == nil {
		values, err := defaultValues()
		if err != nil {
			return nil, err
		}
		return renderChart(overlay(overlay(values, m.Values), map[string]any{"vpp": map[string]any{"enabled": m.VPP}}))
	}
	names, err := fs.Glob(m.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = fs.ReadFile(m.Files, name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func decode(data []byte) (objects []*unstructured.Unstructured, err error) {
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(document, &o.Object)
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// filter passes objects through a program.
func filter(ctx context.Context, program string, objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if program == "" {
		return objects, nil
	}
	var in, out bytes.Buffer
	for _, o := range objects {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		in.WriteString("---\n")
		in.Write(data)
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	filtered, err := decode(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("output of %s: %w", program, err)
	}
	return filtered, nil
}

// apiServerKey is the key, next to the configuration files, of the API server's address for
// clusters without kube-proxy.
const apiServerKey = "api-server"

// loaders holds the parsers of configuration files.
var loaders = map[string]func([]byte) error{
	"contiv.conf":     func(data []byte) error { _, err := contivconf.Load(data); return err },
	"controller.conf": func(data []byte) error { _, err := controller.LoadConfig(data); return err },
	"service.conf":    func(data []byte) error { _, err := service.Load(data); return err },
	"etcd.conf":       func(data []byte) error { return config.Load(data, &etcd.Config{}) },
	apiServerKey: func(data []byte) error {
		if u, err := url.Parse(string(data)); len(data) > 0 && (err != nil || u.Scheme == "" || u.Host == "") {
			return fmt.Errorf("%q is not a URL such as https://192.168.16.254:6443", data)
		}
		return nil
	},
	"vpp.conf": func(data []byte) error { return config.Load(data, &startup.Config{}) },
}

// CheckConfig returns an error for an unknown configuration file, or for one that its component
// would refuse.
func CheckConfig(name, text string) error {
	load := loaders[name]
	if load == nil {
		return unknownFile(name)
	}
	if err := load([]byte(text)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func unknownFile(name string) error {
	files := slices.DeleteFunc(slices.Sorted(maps.Keys(loaders)), func(file string) bool { return file == apiServerKey })
	return fmt.Errorf("%s is not a configuration file: use one of %s", name, strings.Join(files, ", "))
}

// checks holds further checks of the values in configuration files.
var checks = map[string]func([]byte) error{
	"contiv.conf": func(data []byte) error {
		c, err := contivconf.Load(data)
		return cmp.Or(err, c.Check())
	},
	"controller.conf": func(data []byte) error {
		c, err := controller.LoadConfig(data)
		return cmp.Or(err, c.Validate())
	},
	"vpp.conf": func(data []byte) error {
		c := startup.New("/run/vpp", startup.Machine{})
		return cmp.Or(config.Load(data, &c), c.Check(startup.Machine{}))
	},
}

// checkConfiguration returns the first mistake in the configuration files for which checked returns
// true.
func checkConfiguration(objects []*unstructured.Unstructured, checked func(file string) bool) error {
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		for _, file := range slices.Sorted(maps.Keys(checks)) {
			text, found, _ := unstructured.NestedString(o.Object, "data", file)
			if !found || !checked(file) {
				continue
			}
			if err := checks[file]([]byte(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// every stands for all configuration files.
func every(string) bool { return true }

// names reports whether m sets a configuration file or its options.
func (m *Manifests) names(file string) bool {
	_, found := m.Config[file]
	return found || valueAt(m.Values, sections[file]...) != nil
}

// configure replaces the configuration files named in Config.
func (m *Manifests) configure(objects []*unstructured.Unstructured) error {
	for _, file := range slices.Sorted(maps.Keys(m.Config)) {
		if err := CheckConfig(file, m.Config[file]); err != nil {
			return err
		}
		found := false
		for _, o := range objects {
			if data, ok, _ := unstructured.NestedString(o.Object, "data", file); o.GetKind() == "ConfigMap" && ok && data != m.Config[file] {
				if err := unstructured.SetNestedField(o.Object, m.Config[file], "data", file); err != nil {
					return err
				}
				found = true
			} else if ok {
				found = true
			}
		}
		if !found {
			return fmt.Errorf("%s: no installed component reads this file (vpp.conf requires --vpp)", file)
		}
	}
	return nil
}

func (m *Manifests) setImages(o *unstructured.Unstructured) {
	for _, list := range []string{"initContainers", "containers"} {
		path := []string{"spec", "template", "spec", list}
		containers, found, _ := unstructured.NestedSlice(o.Object, path...)
		if !found {
			continue
		}
		for _, c := range containers {
			container, _ := c.(map[string]any)
			switch {
			case container["image"] == DefaultImage && m.Image != "":
				container["image"] = m.Image
			case container["image"] == DefaultVPPImage && m.VPPImage != "":
				container["image"] = m.VPPImage
			}
		}
		_ = unstructured.SetNestedSlice(o.Object, containers, path...)
	}
}

// configAnnotation changes with the pods' configuration, so that Kubernetes replaces the pods.
const configAnnotation = "contivpp.io/config"

// stampConfiguration sets the annotation, where it exists, to the hash of the mounted ConfigMaps.
func stampConfiguration(o *unstructured.Unstructured, objects []*unstructured.Unstructured) error {
	path := []string{"spec", "template", "metadata", "annotations", configAnnotation}
	if _, found, _ := unstructured.NestedString(o.Object, path...); !found {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
	volumes, err := yaml.Marshal(spec["volumes"])
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, other := range objects {
		if other.GetKind() == "ConfigMap" && strings.Contains(string(volumes), "name: "+other.GetName()+"\n") {
			data, _, _ := unstructured.NestedStringMap(other.Object, "data")
			for _, file := range slices.Sorted(maps.Keys(data)) {
				fmt.Fprintf(sum, "%q %q\n", file, data[file])
			}
		}
	}
	return unstructured.SetNestedField(o.Object, hex.EncodeToString(sum.Sum(nil)), path...)
}
