package e2e

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/vswitch/vpp/startup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// vppLabel is what deploy/contiv-vpp.yaml chooses its nodes by.
const vppLabel = "contivpp.io/vswitch=vpp"

// vppArchive is the file with the image ContivVPPImage.
const vppArchive = "contiv-vpp.tar"

// vppFiles returns VPP's programs, with plugins and libraries at the paths that they have on
// this machine: there VPP looks for them.
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

// labelVPP gives the nodes with VPP the label that the manifest selects them by.
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

// adaptConfig says in the configuration which NICs VPP takes, and makes it small; which
// networks a cluster with IPv6 has; and without kube-proxy, where the API server is.
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
