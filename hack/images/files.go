package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an image, by path without leading slash. Parent directories are created.
type file struct {
	mode int64
	data []byte
	// link is the target of a symbolic link.
	link      string
	directory bool
}

type files map[string]file

// mergedUsr lists the directories in Debian's packages that are links in an image.
var mergedUsr = []string{"bin", "lib", "lib64", "sbin"}

// commands lists the busybox commands, without those of other packages in the image.
var commands = strings.Fields("sh mount umount ls cat cp mv rm mkdir ln ps kill grep sed awk head tail less find env id hostname sleep tar gzip vi ip ping ping6 nslookup nc wget route arp arping netstat traceroute top free df du dmesg od hexdump sha256sum stat test true false echo printf cut sort uniq wc xargs tr date")

// systemFiles unpacks Debian packages, without documentation except licences.
func systemFiles(ctx context.Context, archives []string) (files, error) {
	result := files{}
	for _, archive := range archives {
		cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", archive)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w: %s", archive, err, strings.TrimSpace(stderr.String()))
		}
		if err := result.unpack(bytes.NewReader(out)); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", archive, err)
		}
	}
	for _, dir := range mergedUsr {
		result[dir] = file{link: "usr/" + dir}
	}
	// Debian's packages create these links with update-alternatives during installation.
	for _, name := range []string{"iptables", "ip6tables", "iptables-save", "ip6tables-save", "iptables-restore", "ip6tables-restore"} {
		if _, ok := result["usr/sbin/xtables-nft-multi"]; ok {
			result["usr/sbin/"+name] = file{link: "xtables-nft-multi"}
		}
	}
	for _, command := range commands {
		if _, taken := result["usr/sbin/"+command]; !taken {
			result["usr/bin/"+command] = file{link: "busybox"}
		}
	}
	result["tmp"] = file{mode: 0o1777, directory: true}
	result["etc/passwd"] = file{mode: 0o644, data: []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")}
	result["etc/group"] = file{mode: 0o644, data: []byte("root:x:0:\nnogroup:x:65534:\n")}
	return result, nil
}

// unpack adds the content of a package's tar archive.
func (f files) unpack(archive io.Reader) error {
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := inUsr(strings.TrimPrefix(path.Clean("/"+header.Name), "/"))
		if documentation(name) {
			continue
		}
		switch header.Typeflag {
		case tar.TypeReg:
			data, err := io.ReadAll(reader)
			if err != nil {
				return err
			}
			f[name] = file{mode: header.Mode & 0o755, data: data} // setuid bits stay away
		case tar.TypeSymlink:
			f[name] = file{link: header.Linkname}
		case tar.TypeLink:
			f[name] = f[inUsr(strings.TrimPrefix(path.Clean("/"+header.Linkname), "/"))]
		case tar.TypeDir:
		default:
			return fmt.Errorf("%s is neither a file, a link nor a directory", header.Name)
		}
	}
}

// inUsr returns a file's path in an image with /bin, /lib and /sbin in /usr.
func inUsr(name string) string {
	if first, _, _ := strings.Cut(name, "/"); slices.Contains(mergedUsr, first) {
		return "usr/" + name
	}
	return name
}

// documentation reports whether the image omits the file.
func documentation(name string) bool {
	const docs = "usr/share/doc/"
	if strings.HasPrefix(name, docs) {
		return path.Base(name) != "copyright"
	}
	for _, prefix := range []string{"usr/share/man/", "usr/share/locale/", "usr/share/lintian/", "usr/share/bug/", "usr/lib/systemd/", "usr/share/menu/", "usr/share/nftables/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// programFiles reads the kind's programs.
func (k kind) programFiles(dir string) (files, error) {
	result := files{}
	for _, name := range k.programs {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%w (make images builds it)", err)
		}
		result["usr/bin/"+name] = file{mode: 0o755, data: data}
	}
	result["usr/bin/contiv-netctl"] = file{link: "contivctl"}
	return result, nil
}

// tarball writes the files and their directories in name order.
func (f files) tarball(at time.Time) ([]byte, error) {
	entries := map[string]*tar.Header{}
	for name, content := range f {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, isFile := f[dir]; isFile {
				return nil, fmt.Errorf("%s is both a file and a directory", dir)
			}
			entries[dir] = &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: content.mode, Size: int64(len(content.data))}
		switch {
		case content.directory:
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
		case content.link != "":
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: content.link, Mode: 0o777}
		}
		entries[name] = header
	}
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, name := range names {
		header := entries[name]
		header.ModTime, header.Format = at, tar.FormatPAX
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := w.Write(f[name].data); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	err := w.Close()
	return archive.Bytes(), err
}
