package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var testRelease = release{version: "v1.2.3", revision: "0123456789abcdef", created: time.Unix(1_700_000_000, 0).UTC()}

// deb creates a Debian package of files and links ("-> target").
func deb(t *testing.T, name string, content map[string]string, setuid ...string) string {
	t.Helper()
	dir := t.TempDir()
	put := func(path, text string) {
		path = filepath.Join(dir, "root", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("DEBIAN/control", "Package: "+name+"\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: test\n")
	for path, text := range content {
		put(path, text)
	}
	for _, path := range setuid {
		if err := os.Chmod(filepath.Join(dir, "root", path), 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(dir, name+".deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", filepath.Join(dir, "root"), archive).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return archive
}

func system(t *testing.T, archives ...string) files {
	t.Helper()
	f, err := systemFiles(context.Background(), archives)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSystemOfPackages(t *testing.T) {
	f := system(t, deb(t, "tool", map[string]string{
		"lib/libtool.so.1":             "-> libtool.so.1.2",
		"lib/libtool.so.1.2":           "library",
		"usr/bin/tool":                 "program",
		"usr/sbin/ip":                  "the package's ip",
		"usr/share/doc/tool/copyright": "GPL",
		"usr/share/doc/tool/changelog": "long",
		"usr/share/man/man1/tool.1":    "page",
	}, "usr/bin/tool"))
	for path, want := range map[string]file{
		"usr/lib/libtool.so.1":         {link: "libtool.so.1.2"},
		"usr/bin/tool":                 {mode: 0o755, data: []byte("program")}, // without its setuid bit
		"usr/share/doc/tool/copyright": {mode: 0o755, data: []byte("GPL")},
		"lib":                          {link: "usr/lib"},
		"usr/bin/sh":                   {link: "busybox"},
	} {
		if got := f[path]; got.mode != want.mode || got.link != want.link || string(got.data) != string(want.data) {
			t.Errorf("%s is %o %q → %q, want %o %q → %q", path, got.mode, got.data, got.link, want.mode, want.data, want.link)
		}
	}
	for _, path := range []string{"usr/share/doc/tool/changelog", "usr/share/man/man1/tool.1", "lib/libtool.so.1.2", "usr/bin/ip"} {
		if _, ok := f[path]; ok {
			t.Errorf("%s is in the image", path)
		}
	}
}

// A commit always gives the same digest.
func TestReproducible(t *testing.T) {
	content := map[string]string{"usr/bin/busybox": "shell", "usr/lib/a": "a", "usr/lib/b": "b"}
	digest := func() string {
		img, err := plain.assemble(testRelease, "arm64", system(t, deb(t, "busybox", content)), files{"usr/bin/contiv-agent": {mode: 0o755, data: []byte("agent")}})
		if err != nil {
			t.Fatal(err)
		}
		d, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	first := digest()
	if second := digest(); second != first {
		t.Errorf("the digests of two builds differ: %s, %s", first, second)
	}
	content["usr/lib/a"] = "changed"
	if third := digest(); third == first {
		t.Error("another file has the same digest")
	}
}

// A commit always gives the same archive.
func TestArchiveIsReproducible(t *testing.T) {
	img, err := plain.assemble(testRelease, "arm64", files{"usr/bin/busybox": {data: []byte("shell")}}, files{"usr/bin/contiv-agent": {data: []byte("agent")}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "contiv.tar")
	var first string
	for range 20 {
		if err := writeArchive(path, img, tagOf(t, "v1.2.3"), tagOf(t, "latest")); err != nil {
			t.Fatal(err)
		}
		sum, err := checksum(path)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = sum
		}
		if sum != first {
			t.Fatalf("two archives of an image differ: %s, %s", first, sum)
		}
	}
}

func TestImage(t *testing.T) {
	o := options{out: t.TempDir(), release: testRelease}
	img, err := plain.assemble(o.release, "arm64", system(t, deb(t, "busybox", map[string]string{"usr/bin/busybox": "shell"})), files{"usr/bin/contiv-agent": {mode: 0o755, data: []byte("agent")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.write(o, []built{{arch: "arm64", image: img, bill: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"latest", "v1.2.3"} {
		if _, err := tarball.ImageFromPath(filepath.Join(o.out, "contiv-arm64.tar"), new(tagOf(t, tag))); err != nil {
			t.Errorf("the archive has no image %s: %v", tag, err)
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.OS != "linux" || config.Config.User != nobody || !config.Created.Equal(testRelease.created) {
		t.Errorf("the image is for %s/%s, user %s, created %v", config.OS, config.Architecture, config.Config.User, config.Created)
	}
	if got := config.Config.Labels["org.opencontainers.image.revision"]; got != testRelease.revision {
		t.Errorf("label revision is %q", got)
	}
	var index struct {
		Manifests []struct {
			MediaType string
		}
	}
	data, err := os.ReadFile(filepath.Join(o.out, "oci", "index.json"))
	if err == nil {
		err = json.Unmarshal(data, &index)
	}
	if err != nil || len(index.Manifests) != 1 || index.Manifests[0].MediaType != "application/vnd.oci.image.index.v1+json" {
		t.Errorf("index.json of the layout is %s, error %v", data, err)
	}
}

func tagOf(t *testing.T, tag string) name.Tag {
	t.Helper()
	result, err := name.NewTag(plain.repository() + ":" + tag)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "packages.lock")
	if err := os.WriteFile(path, []byte("# comment\n\namd64 nftables 1.0 abc\narm64 nftables\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readLock(path); err == nil || !strings.Contains(err.Error(), `"arm64 nftables"`) {
		t.Errorf("a line without checksum: %v", err)
	}
	packages, err := readLock("packages.lock")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if len(packages[arch]) < len(wanted) {
			t.Errorf("packages.lock has %d packages for %s", len(packages[arch]), arch)
		}
		for _, p := range packages[arch] {
			if len(p.sha256) != 64 {
				t.Errorf("%s %s: checksum %q", arch, p.name, p.sha256)
			}
		}
	}
}

// A package that differs from the lock file is refused.
func TestWrongChecksum(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "packages"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "packages", "tool_1_all.deb"), []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := download(context.Background(), dir, "amd64", []debianPackage{{"amd64", "tool", "1", strings.Repeat("0", 64)}})
	if err == nil || !strings.Contains(err.Error(), "is not the one that was locked") {
		t.Errorf("error is %v", err)
	}
}

// The bill of material names Debian packages and the modules of real programs.
func TestBillOfMaterial(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, program := range plain.programs {
		if err := os.Symlink(self, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	bill, err := plain.billOfMaterial(testRelease, "amd64", []debianPackage{{"amd64", "libc6", "2.36-9+deb12u14", strings.Repeat("a", 64)}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SPDX-2.3", "pkg:deb/debian/libc6@2.36-9+deb12u14?arch=amd64", "pkg:golang/github.com/google/go-containerregistry@v0.20.7", "pkg:golang/stdlib@"} {
		if !strings.Contains(string(bill), want) {
			t.Errorf("the bill does not have %s", want)
		}
	}
}
