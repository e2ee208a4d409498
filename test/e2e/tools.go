package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Places are the directories needed for a cluster.
type Places struct {
	// Source is a work tree of Contiv, for building Kubernetes and installing Contiv.
	Source string
	// Cache keeps the programs of Kubernetes, CoreDNS and Debian.
	Cache string
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
	{program: "apt-get", pkg: "apt", only: func(p Places) bool { return !exists(filepath.Join(p.debianDir(), "usr/bin/containerd")) }},
	{program: "dpkg-deb", pkg: "dpkg", only: func(p Places) bool { return !exists(filepath.Join(p.debianDir(), "usr/bin/containerd")) }},
	{program: "go", pkg: "https://go.dev/dl", only: func(p Places) bool { return !exists(filepath.Join(p.kubernetesDir(), "stamp")) }},
}

func (p Places) debianDir() string     { return filepath.Join(p.Cache, "debian") }
func (p Places) kubernetesDir() string { return filepath.Join(p.Cache, "kubernetes") }

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
	for _, step := range [][]string{{"kubernetes/packages.sh", p.debianDir()}, {"kubernetes/build.sh", p.kubernetesDir()}, {"coredns/build.sh", p.kubernetesDir()}} {
		cmd := exec.CommandContext(ctx, filepath.Join(p.Source, "hack", step[0]), step[1])
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
	}
	opts.KubernetesDir, opts.DebianDir = p.kubernetesDir(), p.debianDir()
	var err error
	opts.Manifests, err = filepath.Glob(filepath.Join(p.Source, "deploy/*.yaml"))
	if err == nil && len(opts.Manifests) == 0 {
		err = fmt.Errorf("%s has no manifests", filepath.Join(p.Source, "deploy"))
	}
	return err
}
