package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/contiv/contiv/test/lab"
)

// The cluster's images, made of this machine's files.
const (
	// ContivImage is the manifests' image: Contiv's programs and busybox.
	ContivImage = "docker.io/contiv/contiv:latest"
	// ContivVPPImage also contains VPP.
	ContivVPPImage = "docker.io/contiv/contiv-vpp:latest"
	// BusyboxImage is for the pods of tests.
	BusyboxImage = "docker.io/library/busybox:e2e"
	dnsImage     = "docker.io/library/coredns:e2e"
	pauseImage   = "docker.io/library/pause:e2e"
)

// image is a container image of one layer.
type image struct {
	name string
	// command of a container whose pod has none.
	command []string
	files   []imageFile
}

// imageFile is a file, or a symbolic link, of an image.
type imageFile struct {
	path string // without the leading slash
	mode int64
	data []byte
	link string // target of a symbolic link
}

// writeImages writes the archives of all images.
func (c *Cluster) writeImages() error {
	busybox, err := busyboxFiles(filepath.Join(c.opts.DebianDir, "bin/busybox"))
	if err != nil {
		return fmt.Errorf("making images: %w", err)
	}
	contiv, err := contivFiles(busybox, c.opts.BinDir)
	if err != nil {
		return fmt.Errorf("making images: %w", err)
	}
	dns, err := os.ReadFile(filepath.Join(c.opts.KubernetesDir, "coredns"))
	if err != nil {
		return fmt.Errorf("making images: %w", err)
	}
	pause := []string{"/bin/sleep", "infinity"}
	images := map[string]image{
		"busybox.tar": {BusyboxImage, []string{"/bin/sh"}, busybox},
		"pause.tar":   {pauseImage, pause, busybox},
		"coredns.tar": {dnsImage, []string{"/coredns"}, []imageFile{{path: "coredns", mode: 0o755, data: dns}}},
	}
	given := map[string]string{"contiv.tar": c.opts.ContivArchive}
	if c.hasVPP() {
		given[vppArchive] = c.opts.VPPArchive
	}
	for file, archive := range given {
		if archive == "" {
			continue
		}
		if err := os.Symlink(archive, c.path("images", file)); err != nil {
			return fmt.Errorf("taking the image of Contiv: %w", err)
		}
	}
	if given["contiv.tar"] == "" {
		images["contiv.tar"] = image{ContivImage, []string{"/bin/sh"}, contiv}
	}
	if c.hasVPP() && given[vppArchive] == "" {
		vpp, err := vppFiles(c.opts.VPPBin)
		if err != nil {
			return fmt.Errorf("making images: %w", err)
		}
		images[vppArchive] = image{ContivVPPImage, []string{"/bin/sh"}, append(contiv[:len(contiv):len(contiv)], vpp...)}
	}
	for file, i := range images {
		if err := i.write(c.path("images", file)); err != nil {
			return fmt.Errorf("making image %s: %w", i.name, err)
		}
	}
	return nil
}

// contivFiles returns the files of an image with Contiv's programs from binDir.
func contivFiles(busybox []imageFile, binDir string) ([]imageFile, error) {
	nft, err := programFiles("nft", "usr/sbin/nft")
	if err != nil {
		return nil, err
	}
	files := append(busybox[:len(busybox):len(busybox)], nft...)
	for _, name := range []string{"contiv-agent", "contiv-cni", "contiv-init", "contiv-ksr", "contiv-etcd", "contivctl"} {
		data, err := os.ReadFile(filepath.Join(binDir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, imageFile{path: "usr/bin/" + name, mode: 0o755, data: data})
	}
	return files, nil
}

// AddImage loads another Contiv image on all nodes, with the name and the programs in binDir.
func (c *Cluster) AddImage(ctx context.Context, name, binDir string) error {
	busybox, err := busyboxFiles(filepath.Join(c.opts.DebianDir, "bin/busybox"))
	if err != nil {
		return err
	}
	files, err := contivFiles(busybox, binDir)
	if err != nil {
		return err
	}
	archive := c.path("images", "added.tar")
	if err := (image{name, []string{"/bin/sh"}, files}).write(archive); err != nil {
		return fmt.Errorf("making image %s: %w", name, err)
	}
	for _, node := range c.nodes {
		if err := c.ctr(ctx, node.Name, "images", "import", "--no-unpack", archive); err != nil {
			return err
		}
	}
	return nil
}

// programFiles returns a program of this machine, with another path in the image, and its
// libraries.
func programFiles(name, path string) ([]imageFile, error) {
	source, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: make packages installs it", err)
	}
	return linkedFiles(source, path)
}

// linkedFiles returns a program or library, with a path in the image, and its libraries.
func linkedFiles(source, path string) ([]imageFile, error) {
	// Lines "<name> => <path> (<address>)", "<path> (<address>)" for the loader.
	libraries, err := exec.Command("ldd", source).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", source, err)
	}
	files := map[string]string{path: source}
	for word := range strings.FieldsSeq(string(libraries)) {
		if strings.HasPrefix(word, "/") {
			files[strings.TrimPrefix(word, "/")] = word
		}
	}
	var result []imageFile
	for path, source := range files {
		data, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		result = append(result, imageFile{path: path, mode: 0o755, data: data})
	}
	return result, nil
}

// busyboxFiles returns busybox, with a link for each of its commands.
func busyboxFiles(path string) ([]imageFile, error) {
	files, err := programFiles(path, "bin/busybox")
	if err != nil {
		return nil, err
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", path, err)
	}
	files = append(files,
		imageFile{path: "etc/passwd", mode: 0o644, data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")},
		imageFile{path: "etc/group", mode: 0o644, data: []byte("root:x:0:\nnogroup:x:65534:\n")},
	)
	for _, command := range strings.Fields(string(list)) {
		if command != "busybox" {
			files = append(files, imageFile{path: "bin/" + command, link: "busybox"})
		}
	}
	return files, nil
}

// write writes an archive for "ctr images import": the layer, the configuration and a manifest that
// names both, like "docker save".
func (i image) write(path string) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	layerID := digest(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Env": []string{"PATH=/usr/sbin:/usr/bin:/bin"}, "Cmd": i.command, "WorkingDir": "/"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerID}},
	})
	if err != nil {
		return err
	}
	configFile := digest(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configFile, "RepoTags": []string{i.name}, "Layers": []string{layerID + "/layer.tar"},
	}})
	if err != nil {
		return err
	}
	archive, err := tarball([]imageFile{
		{path: layerID + "/layer.tar", mode: 0o644, data: layer},
		{path: configFile, mode: 0o644, data: config},
		{path: "manifest.json", mode: 0o644, data: manifest},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, archive, 0o600)
}

// layer returns a tar of the image's files and their directories.
func (i image) layer() ([]byte, error) {
	files := []imageFile{{path: "tmp/", mode: 0o1777}, {path: "proc/", mode: 0o755}, {path: "sys/", mode: 0o755}, {path: "dev/", mode: 0o755}}
	made := map[string]bool{}
	for _, f := range i.files {
		for j, r := range f.path {
			if dir := f.path[:j] + "/"; r == '/' && !made[dir] {
				made[dir] = true
				files = append(files, imageFile{path: dir, mode: 0o755})
			}
		}
		// Shared libraries occur several times.
		if !made[f.path] {
			made[f.path] = true
			files = append(files, f)
		}
	}
	return tarball(files)
}

func tarball(files []imageFile) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), Typeflag: tar.TypeReg}
		switch {
		case strings.HasSuffix(f.path, "/"):
			h.Typeflag = tar.TypeDir
		case f.link != "":
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.link, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buffer.Bytes(), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// loadImages imports the images into a node's containerd.
func (c *Cluster) loadImages(ctx context.Context, node lab.Node) error {
	files := []string{"pause.tar", "busybox.tar", "contiv.tar", "coredns.tar"}
	if node.OnVPP() {
		files = append(files, vppArchive)
	}
	for _, file := range files {
		if err := c.ctr(ctx, node.Name, "images", "import", "--no-unpack", c.path("images", file)); err != nil {
			return err
		}
	}
	return nil
}
