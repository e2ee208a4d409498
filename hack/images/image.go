package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// kind is a kind of image.
type kind struct {
	name, description string
	// programs lists Contiv's programs in it.
	programs []string
}

var (
	plain = kind{"contiv", "Contiv, a Kubernetes network plugin: agent, CNI plugin, state reflector, etcd, contivctl",
		[]string{"contiv-agent", "contiv-calico-routes", "contiv-cni", "contiv-etcd", "contiv-ksr", "contiv-stn", "contivctl"}}
	// withVPP is for nodes with VPP, with VPP packages provided by the user.
	withVPP = kind{"contiv-vpp", "Contiv for nodes with FD.io VPP: VPP, agent, CNI plugin, contivctl",
		[]string{"contiv-init", "contiv-agent", "contiv-cni", "contivctl"}}
)

// repository is the image's name in the manifests of deploy/.
func (k kind) repository() string { return "docker.io/contiv/" + k.name }

// nobody is the user of the image's programs, unless a manifest sets another.
const nobody = "65534:65534"

// built is the image of one architecture.
type built struct {
	arch  string
	image v1.Image
	bill  []byte // SPDX, JSON
}

// assemble builds an image of two layers: the system, which changes with Debian's packages only,
// and Contiv.
func (k kind) assemble(r release, arch string, system, contiv files) (v1.Image, error) {
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	var layers []mutate.Addendum
	for _, l := range []struct {
		files files
		what  string
	}{{system, "Debian packages"}, {contiv, "Contiv " + r.version}} {
		data, err := l.files.tarball(r.created)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		layers = append(layers, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{CreatedBy: l.what, Created: v1.Time{Time: r.created}}})
	}
	img, err := mutate.Append(img, layers...)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = arch, "linux", v1.Time{Time: r.created}
	config.Config = v1.Config{
		User: nobody,
		Env:  []string{"PATH=/usr/sbin:/usr/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       k.name,
			"org.opencontainers.image.description": k.description,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
			"org.opencontainers.image.created":     r.created.Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, config)
}

// write writes, into the output directory,
//
//	contiv-ARCH.tar        an archive for ctr, docker load and kind load
//	contiv-ARCH.spdx.json  its bill of material
//	oci/                   an OCI layout with an index of all architectures
//
// or contiv-vpp-ARCH.tar and so on, and oci-vpp.
func (k kind) write(o options, images []built) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	tag, err := name.NewTag(k.repository() + ":latest")
	if err != nil {
		return err
	}
	versioned, err := name.NewTag(k.repository() + ":" + o.version)
	if err != nil {
		return fmt.Errorf("version %q does not fit a tag: %w", o.version, err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range images {
		archive := filepath.Join(o.out, k.name+"-"+b.arch+".tar")
		if err := errors.Join(
			writeArchive(archive, b.image, tag, versioned),
			os.WriteFile(filepath.Join(o.out, k.name+"-"+b.arch+".spdx.json"), b.bill, 0o644),
		); err != nil {
			return err
		}
		digest, err := b.image.Digest()
		if err != nil {
			return err
		}
		size, err := archiveSize(archive)
		if err != nil {
			return err
		}
		fmt.Printf("%s  %s  %s (%.0f MiB)\n", digest, versioned, archive, size)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.arch}}})
	}
	oci := filepath.Join(o.out, "oci"+strings.TrimPrefix(k.name, "contiv"))
	if err := os.RemoveAll(oci); err != nil {
		return err
	}
	path, err := layout.Write(oci, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": versioned.String()})); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err == nil {
		fmt.Printf("%s  all architectures  %s\n", digest, oci)
	}
	return err
}

// writeArchive writes an image with its tags. go-containerregistry orders tags randomly, but a
// commit must always give the same archive.
func writeArchive(path string, img v1.Image, tags ...name.Tag) error {
	named := map[name.Reference]v1.Image{}
	for _, tag := range tags {
		named[tag] = img
	}
	contents, err := tarball.ComputeManifest(named)
	if err != nil {
		return err
	}
	slices.Sort(contents[0].RepoTags)
	manifest, err := json.Marshal(contents)
	if err != nil {
		return err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	add := func(name string, size int64, data io.Reader) error {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.Copy(w, data)
		}
		return err
	}
	err = add(contents[0].Config, int64(len(config)), bytes.NewReader(config))
	for i, layer := range layers {
		size, sizeErr := layer.Size()
		data, dataErr := layer.Compressed()
		if err = errors.Join(err, sizeErr, dataErr); err != nil {
			break
		}
		err = errors.Join(add(contents[0].Layers[i], size, data), data.Close())
	}
	if err == nil {
		err = add("manifest.json", int64(len(manifest)), bytes.NewReader(manifest))
	}
	return errors.Join(err, w.Close(), f.Close())
}

// archiveSize is in MiB.
func archiveSize(path string) (float64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / (1 << 20), nil
}
