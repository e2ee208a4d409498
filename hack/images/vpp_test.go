package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// VPP's packages and their locked dependencies give the image of deploy/contiv-vpp.yaml.
func TestImageWithVPP(t *testing.T) {
	dir := t.TempDir()
	o := options{
		release: testRelease, arches: []string{"amd64", "arm64"}, vpp: filepath.Join(dir, "vpp"),
		out: filepath.Join(dir, "out"), cache: filepath.Join(dir, "cache"), binaries: filepath.Join(dir, "programs"),
	}
	copyTo := func(source string, path ...string) string {
		t.Helper()
		target := filepath.Join(append([]string{dir}, path...)...)
		data, err := os.ReadFile(source)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, data, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
		return target
	}
	if err := os.MkdirAll(o.vpp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := buildVPP(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has no packages of VPP for amd64, arm64") {
		t.Errorf("without packages: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range withVPP.programs {
		copyTo(self, "programs", "amd64", program)
	}
	copyTo(deb(t, "vpp", map[string]string{"usr/bin/vpp": "VPP"}), "vpp", "vpp_1_amd64.deb")
	sum, err := checksum(copyTo(deb(t, "busybox-static", map[string]string{"bin/busybox": "shell"}), "cache", "amd64", "packages", "busybox-static_1_amd64.deb"))
	if err == nil {
		err = os.WriteFile(filepath.Join(o.vpp, "packages.lock"), []byte("amd64 busybox-static 1 "+sum+"\narm64 busybox-static 1 other\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := buildVPP(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("docker.io/contiv/contiv-vpp:latest")
	if err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(filepath.Join(o.out, "contiv-vpp-amd64.tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer content.Close()
	var paths []string
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, header.Name)
	}
	for _, want := range []string{"usr/bin/vpp", "usr/bin/busybox", "usr/bin/contiv-init", "usr/bin/contiv-agent", "usr/bin/contiv-netctl", billPath} {
		if !slices.Contains(paths, want) {
			t.Errorf("the image lacks %s", want)
		}
	}
	bill, err := os.ReadFile(filepath.Join(o.out, "contiv-vpp-amd64.spdx.json"))
	if err != nil || !strings.Contains(string(bill), "pkg:deb/debian/vpp@1") || !strings.Contains(string(bill), "pkg:oci/contiv-vpp@v1.2.3") {
		t.Errorf("the bill of material does not name VPP (%v): %s", err, bill)
	}
	if lock, err := os.ReadFile(filepath.Join(o.vpp, "packages.lock")); err != nil || !strings.Contains(string(lock), "arm64 busybox-static 1 other\n") {
		t.Errorf("the lock file lost another architecture (%v): %s", err, lock)
	}
	if _, err := os.Stat(filepath.Join(o.out, "oci-vpp", "index.json")); err != nil {
		t.Error(err)
	}
}
