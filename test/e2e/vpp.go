package e2e

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	"github.com/contiv/contiv/test/lab"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// vppLabel selects the nodes of deploy/contiv-vpp.yaml.
const vppLabel = "contivpp.io/vswitch=vpp"

// vppArchive is the file with the image ContivVPPImage.
const vppArchive = "contiv-vpp.tar"

// vppFiles returns VPP's programs, plugins and libraries at their paths on this machine, where VPP
// looks for them.
func vppFiles(binary string) ([]imageFile, error) {
	binary, err := filepath.EvalSymlinks(binary)
	if err != nil {
		return nil, err
	}
	dir := startup.PluginPath(binary)
	if dir == "" {
		dir = "/usr/lib/*/vpp_plugins"
	}
	plugins, err := filepath.Glob(filepath.Join(dir, "*.so"))
	if err != nil || len(plugins) == 0 {
		return nil, fmt.Errorf("VPP's plugins are not found in %s: %v", dir, err)
	}
	vppctl := filepath.Join(filepath.Dir(binary), "vppctl")
	var files []imageFile
	for _, path := range append(plugins, binary, vppctl) {
		found, err := linkedFiles(path, path[1:])
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	for _, path := range []string{binary, vppctl} {
		if link := filepath.Join("/usr/bin", filepath.Base(path)); link != path {
			files = append(files, imageFile{path: link[1:], link: path})
		}
	}
	return files, nil
}

// labelVPP labels the VPP nodes for the manifest.
func (c *Cluster) labelVPP(ctx context.Context) error {
	for _, n := range c.nodes {
		if n.OnVPP() {
			if _, err := c.Kubectl(ctx, "label", "node", n.Name, vppLabel); err != nil {
				return err
			}
		}
	}
	return nil
}

// adaptConfig sets VPP's NICs and a small size in the configuration, the networks of a cluster with
// IPv6, and without kube-proxy the API server's address.
func (c *Cluster) adaptConfig(config *unstructured.Unstructured) error {
	changes := map[string]func(string) string{"contiv.conf": func(text string) string { return text + c.contivConf() }}
	if c.hasVPP() {
		changes["contiv.conf"] = func(text string) string { return text + lab.VPPConfig(c.nodes...) }
		changes["vpp.conf"] = func(string) string { return lab.VPPOptions() }
	}
	if c.opts.WithoutProxy {
		changes["api-server"] = func(string) string { return c.apiServerURL() }
	}
	for file, change := range changes {
		text, found, err := unstructured.NestedString(config.Object, "data", file)
		if err == nil && found {
			err = unstructured.SetNestedField(config.Object, change(text), "data", file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
