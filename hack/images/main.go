// Images builds Contiv's container images for several architectures, without a container engine:
// "make images" calls it.
//
//	packages.lock ── apt ──> Debian packages ──> layer of the system ─┐
//	go build ──> static programs ──────────────> layer of Contiv ─────┼──> archives, index
//	both ──────────────────────────────────────> SPDX bill of material┘
//
// A commit always gives the same digest: packages are pinned by checksum, times are the commit's,
// and files are sorted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

type options struct {
	binaries string // directory with a directory of programs per architecture
	out      string
	cache    string
	lock     string
	vpp      string // directory with packages of VPP; "": no image with VPP
	arches   []string
	release
	update bool
}

// release is the input of the images.
type release struct {
	version  string
	revision string
	// created is the time of the commit and of all files.
	created time.Time
}

func parse(args []string) (options, error) {
	var o options
	var arches string
	var created int64
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.StringVar(&o.binaries, "binaries", "", "`directory` with a directory of static programs for each architecture")
	flags.StringVar(&o.out, "out", "", "`directory` of the archives")
	flags.StringVar(&o.cache, "cache", "", "`directory` where packages are kept")
	flags.StringVar(&o.lock, "lock", "packages.lock", "`file` with the Debian packages of the base")
	flags.StringVar(&o.vpp, "vpp", "", "`directory` with VPP's packages: make the image with VPP, too, for the architectures that it has packages for")
	flags.StringVar(&arches, "arch", "amd64,arm64", "architectures, as Go and Debian name them")
	flags.StringVar(&o.version, "version", "", "version of Contiv")
	flags.StringVar(&o.revision, "revision", "", "commit that the programs were built from")
	flags.Int64Var(&created, "created", 0, "time of the commit, in seconds since 1970")
	flags.BoolVar(&o.update, "update", false, "rewrite the lock file with the newest packages and exit")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.arches, o.created = strings.Split(arches, ","), time.Unix(created, 0).UTC()
	if o.cache == "" || !o.update && (o.binaries == "" || o.out == "" || o.version == "" || created == 0) {
		return o, errors.New("-cache, -binaries, -out, -version and -created are needed; with -update only -cache")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.update {
		return updateLock(ctx, o)
	}
	locked, err := readLock(o.lock)
	if err != nil {
		return err
	}
	var images []built
	for _, arch := range o.arches {
		if len(locked[arch]) == 0 {
			return fmt.Errorf("%s names no packages for %s; make images-update writes it", o.lock, arch)
		}
		b, err := plain.build(ctx, o, arch, locked[arch], nil)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		images = append(images, b)
	}
	err = plain.write(o, images)
	if err == nil && o.vpp != "" {
		err = buildVPP(ctx, o)
	}
	return err
}

// build builds the image of one architecture from Debian's packages and other archives.
func (k kind) build(ctx context.Context, o options, arch string, packages []debianPackage, others []string) (built, error) {
	archives, err := download(ctx, filepath.Join(o.cache, arch), arch, packages)
	if err != nil {
		return built{}, err
	}
	archives = append(archives, others...)
	for _, archive := range others {
		p, err := describe(ctx, archive)
		if err != nil {
			return built{}, err
		}
		packages = append(packages, p)
	}
	system, err := systemFiles(ctx, archives)
	if err != nil {
		return built{}, err
	}
	programs, err := k.programFiles(filepath.Join(o.binaries, arch))
	if err != nil {
		return built{}, err
	}
	bill, err := k.billOfMaterial(o.release, arch, packages, filepath.Join(o.binaries, arch))
	if err != nil {
		return built{}, err
	}
	programs[billPath] = file{mode: 0o644, data: bill}
	img, err := k.assemble(o.release, arch, system, programs)
	return built{arch: arch, image: img, bill: bill}, err
}
