package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Paths of the machine that kubelet and containerd use regardless of their configuration.
const (
	containerLogs  = "/var/log/containers"
	shimSockets    = "/run/containerd/s"
	cniResults     = "/var/lib/cni/results"
	kubeletHome    = "/var/lib/kubelet"
	kubeletPlugins = kubeletHome + "/device-plugins"
)

// ownsKubeletHome is a file in the cluster's directory that records that the machine had no kubelet
// directory before.
const ownsKubeletHome = "owns-kubelet-home"

// noteTraces records which of these paths the cluster will create.
func (c *Cluster) noteTraces() error {
	if exists(kubeletHome) {
		return nil
	}
	return os.WriteFile(c.path(ownsKubeletHome), nil, 0o600)
}

// removeTraces removes the traces of the cluster in the directory, after all its processes have
// ended. It removes empty directories.
func removeTraces(dir string) error {
	err := errors.Join(
		// Links to logs.
		removeFiles(containerLogs, func(path string) bool {
			target, err := os.Readlink(path)
			return err == nil && strings.HasPrefix(target, dir+"/")
		}),
		// The cache of the CNI library: the results name the namespaces of the pods.
		removeFiles(cniResults, func(path string) bool {
			data, err := os.ReadFile(path)
			return err == nil && bytes.Contains(data, []byte(dir+"/"))
		}),
		removeFiles(shimSockets, func(path string) bool { return !served(path) }),
	)
	if exists(filepath.Join(dir, ownsKubeletHome)) {
		err = errors.Join(err, removeFiles(kubeletPlugins, func(path string) bool {
			name := filepath.Base(path)
			return name == "kubelet_internal_checkpoint" || name == "DEPRECATION" || name == "kubelet.sock" && !served(path)
		}))
	}
	for _, d := range []string{
		containerLogs, cniResults, filepath.Dir(cniResults),
		shimSockets, "/run/containerd/fifo", "/run/containerd",
		kubeletPlugins, kubeletHome, "/run/mount",
	} {
		os.Remove(d)
	}
	return err
}

// removeFiles removes the files of a directory that are ours.
func removeFiles(dir string, ours func(path string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); ours(path) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// served reports whether a process listens on the unix socket.
func served(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return !errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.ECONNREFUSED)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
