package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Places are the directories needed for a cluster.
type Places struct {
	// Source is a work tree of Contiv, for building Kubernetes and installing Contiv.
	Source string
	// Cache keeps the programs of Kubernetes, containerd, CoreDNS and Debian.
	Cache string
	// Kubernetes is the minor version to run, such as "1.34", a directory of hack/kubernetes. Default:
	// the newest.
	Kubernetes string
}

// DefaultCache is also the cache of make e2e.
func DefaultCache() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "contiv"), err
}

// FindSource looks for a work tree of Contiv in the directories and their parents, and returns its
// absolute path.
func FindSource(from ...string) (string, error) {
	for _, dir := range from {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		for ; ; dir = filepath.Dir(dir) {
			if exists(filepath.Join(dir, "hack/kubernetes/build.sh")) {
				return dir, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("the work tree of Contiv is not found: Kubernetes is built from it. Name its directory with --source")
}

// tool is a program of the machine that a cluster needs.
type tool struct {
	program, pkg string
	// only reports whether it is needed; nil: always.
	only func(Places) bool
}

var tools = []tool{
	{program: "bash", pkg: "bash"},
	{program: "ip", pkg: "iproute2"},
	{program: "nft", pkg: "nftables"},
	{program: "iptables", pkg: "iptables"},
	{program: "ldd", pkg: "libc-bin"},
	{program: "apt-get", pkg: "apt", only: func(p Places) bool { return !exists(filepath.Join(p.DebianDir(), "bin/busybox")) }},
	{program: "dpkg-deb", pkg: "dpkg", only: func(p Places) bool { return !exists(filepath.Join(p.DebianDir(), "bin/busybox")) }},
	{program: "gcc", pkg: "build-essential", only: func(p Places) bool { return !exists(filepath.Join(p.RuntimeDir(), "runc")) }},
	{program: "go", pkg: "https://go.dev/dl", only: func(p Places) bool { return !exists(filepath.Join(p.KubernetesDir(), "stamp")) }},
}

// DebianDir is the directory of the unpacked packages.
func (p Places) DebianDir() string { return filepath.Join(p.Cache, "debian") }

// RuntimeDir is the directory of containerd and runc.
func (p Places) RuntimeDir() string { return filepath.Join(p.Cache, "containerd") }

// KubernetesDir is the directory of the programs of Kubernetes, in the wanted version.
func (p Places) KubernetesDir() string { return filepath.Join(p.Cache, "kubernetes", p.version()) }

// version returns the minor version of Kubernetes to run.
func (p Places) version() string {
	if p.Kubernetes != "" {
		return p.Kubernetes
	}
	newest := 0
	files, _ := filepath.Glob(filepath.Join(p.Source, "hack/kubernetes/1.*/go.mod"))
	for _, f := range files {
		if minor, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(f)), "1.")); err == nil {
			newest = max(newest, minor)
		}
	}
	return fmt.Sprintf("1.%d", newest)
}

// missingTools returns an error that lists the tools to install, nil if none is missing.
func (p Places) missingTools(look func(string) (string, error)) error {
	var missing []string
	for _, t := range tools {
		if t.only != nil && !t.only(p) {
			continue
		}
		if _, err := look(t.program); err != nil {
			missing = append(missing, fmt.Sprintf("%s (install %s)", t.program, t.pkg))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a Kubernetes cluster needs programs that this machine lacks: %s", strings.Join(missing, ", "))
	}
	return nil
}

// Prepare builds or downloads the programs of Kubernetes and Debian unless they are cached, and
// sets their and the manifests' paths in opts. It writes progress to output.
func (p Places) Prepare(ctx context.Context, opts *Options, output io.Writer) error {
	if err := p.missingTools(exec.LookPath); err != nil {
		return err
	}
	for _, step := range [][]string{
		{"kubernetes/packages.sh", p.DebianDir()},
		{"containerd/build.sh", p.RuntimeDir(), p.DebianDir()},
		{"kubernetes/build.sh", p.KubernetesDir(), p.version()},
		{"coredns/build.sh", p.KubernetesDir()},
	} {
		cmd := exec.CommandContext(ctx, filepath.Join(p.Source, "hack", step[0]), step[1:]...)
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
	}
	opts.KubernetesDir, opts.RuntimeDir, opts.DebianDir = p.KubernetesDir(), p.RuntimeDir(), p.DebianDir()
	var err error
	opts.Manifests, err = filepath.Glob(filepath.Join(p.Source, "deploy/*.yaml"))
	if err == nil && len(opts.Manifests) == 0 {
		err = fmt.Errorf("%s has no manifests", filepath.Join(p.Source, "deploy"))
	}
	return err
}
