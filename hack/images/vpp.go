package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// wantedWithVPP lists Debian packages in the VPP image in addition to the dependencies of VPP's
// packages.
var wantedWithVPP = []string{"busybox-static", "nftables"}

// buildVPP builds the VPP image for the architectures of its packages. Their dependencies are
// locked in the packages' directory, because they depend on the user's packages.
func buildVPP(ctx context.Context, o options) error {
	lock := filepath.Join(o.vpp, "packages.lock")
	locked, err := readLock(lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if locked == nil {
		locked = map[string][]debianPackage{}
	}
	var images []built
	for _, arch := range o.arches {
		archives, err := vppArchives(o.vpp, arch)
		if err != nil {
			return err
		}
		if len(archives) == 0 {
			continue
		}
		if locked[arch] == nil {
			a, err := newApt(ctx, filepath.Join(o.cache, arch), arch)
			if err != nil {
				return err
			}
			if locked[arch], err = a.resolve(ctx, append(wantedWithVPP, archives...)...); err != nil {
				return fmt.Errorf("dependencies of VPP's packages: %w", err)
			}
		}
		b, err := withVPP.build(ctx, o, arch, locked[arch], archives)
		if err != nil {
			return fmt.Errorf("%s with VPP: %w", arch, err)
		}
		images = append(images, b)
	}
	if len(images) == 0 {
		return fmt.Errorf("%s has no packages of VPP for %s, such as vpp_25.10-release_amd64.deb", o.vpp, strings.Join(o.arches, ", "))
	}
	var lines []string
	for _, arch := range slices.Sorted(maps.Keys(locked)) {
		lines = append(lines, lockLines(locked[arch])...)
	}
	text := "# Dependencies of VPP's packages in this directory. Remove this file to get newer ones.\n" + strings.Join(lines, "\n") + "\n"
	return errors.Join(os.WriteFile(lock, []byte(text), 0o644), withVPP.write(o, images))
}

// vppArchives returns the paths of the packages for an architecture.
func vppArchives(dir, arch string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*_"+arch+".deb"))
}

// describe returns name, version and checksum of the package in an archive.
func describe(ctx context.Context, archive string) (p debianPackage, err error) {
	out, err := exec.CommandContext(ctx, "dpkg-deb", "--show", "--showformat", "${Architecture} ${Package} ${Version}", archive).Output()
	if err != nil {
		return p, fmt.Errorf("reading %s: %w", archive, err)
	}
	if _, err := fmt.Sscan(string(out), &p.arch, &p.name, &p.version); err != nil {
		return p, fmt.Errorf("%s says that it is %q: %w", archive, out, err)
	}
	p.sha256, err = checksum(archive)
	return p, err
}
