package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// wanted lists the base packages, without dependencies. The agent executes nft and iptables;
// busybox is the shell and for debugging.
var wanted = []string{"busybox-static", "iptables", "nftables"}

// unwanted lists dependencies that an image does not need.
var unwanted = []string{"gcc-12-base", "netbase"}

// debianPackage is one line of the lock file.
type debianPackage struct {
	arch, name, version, sha256 string
}

// readLock reads the packages of each architecture.
func readLock(path string) (map[string][]debianPackage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	packages := map[string][]debianPackage{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s: line %q is not of the form: architecture package version sha256", path, strings.TrimSpace(line))
		}
		p := debianPackage{fields[0], fields[1], fields[2], fields[3]}
		packages[p.arch] = append(packages[p.arch], p)
	}
	return packages, nil
}

// updateLock writes the lock file with Debian's newest packages.
func updateLock(ctx context.Context, o options) error {
	var lines []string
	for _, arch := range o.arches {
		a, err := newApt(ctx, filepath.Join(o.cache, arch), arch)
		if err != nil {
			return err
		}
		packages, err := a.resolve(ctx, wanted...)
		if err != nil {
			return err
		}
		lines = append(lines, lockLines(packages)...)
	}
	text := "# Debian packages in the images, written by make images-update: architecture, package, version, SHA-256 of the archive.\n" + strings.Join(lines, "\n") + "\n"
	return os.WriteFile(o.lock, []byte(text), 0o644)
}

func lockLines(packages []debianPackage) (lines []string) {
	for _, p := range packages {
		lines = append(lines, strings.Join([]string{p.arch, p.name, p.version, p.sha256}, " "))
	}
	return lines
}

// apt calls apt-get for an architecture, ignoring the machine's installed packages. It uses the
// machine's sources and keys.
type apt struct {
	dir, arch string
}

func newApt(ctx context.Context, dir, arch string) (*apt, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	a := &apt{dir, arch}
	for _, d := range []string{"state/lists/partial", "cache/archives/partial", "packages"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf("APT::Architecture %q;\nAPT::Architectures { %q; };\nAPT::Sandbox::User \"\";\nDir::State %q;\nDir::State::status %q;\nDir::Cache %q;\n",
		arch, arch, filepath.Join(dir, "state"), filepath.Join(dir, "status"), filepath.Join(dir, "cache"))
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "apt.conf"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, "status"), nil, 0o644),
	); err != nil {
		return nil, err
	}
	_, err = a.run(ctx, "apt-get", "update", "-qq")
	return a, err
}

func (a *apt) run(ctx context.Context, command string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir = filepath.Join(a.dir, "packages")
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", command, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

var installLine = regexp.MustCompile(`^Inst (\S+) \((\S+) (\S+)`)

// resolve returns packages, by name, and their dependencies, without packages named by their
// archive's path.
func (a *apt) resolve(ctx context.Context, wanted ...string) ([]debianPackage, error) {
	out, err := a.run(ctx, "apt-get", append([]string{"install", "--simulate", "--no-install-recommends"}, wanted...)...)
	if err != nil {
		return nil, err
	}
	var packages []debianPackage
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		found := installLine.FindStringSubmatch(lines.Text())
		if found == nil || found[3] == "local-deb" {
			continue
		}
		name, _, _ := strings.Cut(found[1], ":")
		if slices.Contains(unwanted, name) {
			continue
		}
		p := debianPackage{arch: a.arch, name: name, version: found[2]}
		path, err := a.fetch(ctx, p)
		if err != nil {
			return nil, err
		}
		if p.sha256, err = checksum(path); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(p, q debianPackage) int { return strings.Compare(p.name, q.name) })
	return packages, nil
}

// path returns the file to which apt-get downloads the package.
func (a *apt) path(p debianPackage) (string, error) {
	version := strings.ReplaceAll(p.version, ":", "%3a")
	found, err := filepath.Glob(filepath.Join(a.dir, "packages", p.name+"_"+version+"_*.deb"))
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
}

func (a *apt) fetch(ctx context.Context, p debianPackage) (string, error) {
	if _, err := a.run(ctx, "apt-get", "download", "-qq", p.name+"="+p.version); err != nil {
		return "", fmt.Errorf("%w (Debian keeps only the newest version of a package: update the lock file with make images-update)", err)
	}
	path, err := a.path(p)
	if path == "" {
		err = errors.Join(err, fmt.Errorf("apt-get download left no archive of %s %s", p.name, p.version))
	}
	return path, err
}

// download returns the archives of packages, in order. It skips files that dir has, and always
// checks the checksums.
func download(ctx context.Context, dir, arch string, packages []debianPackage) (archives []string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	a := &apt{abs, arch}
	updated := false
	for _, p := range packages {
		path, err := a.path(p)
		if err != nil {
			return nil, err
		}
		if path == "" {
			if !updated {
				if a, err = newApt(ctx, abs, arch); err != nil {
					return nil, err
				}
				updated = true
			}
			if path, err = a.fetch(ctx, p); err != nil {
				return nil, err
			}
		}
		sum, err := checksum(path)
		if err != nil {
			return nil, err
		}
		if sum != p.sha256 {
			return nil, fmt.Errorf("%s has the checksum %s, but the lock file says %s: remove it and try again; if it stays so, the package is not the one that was locked", path, sum, p.sha256)
		}
		archives = append(archives, path)
	}
	return archives, nil
}

func checksum(path string) (string, error) {
	data, err := os.ReadFile(path)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}
