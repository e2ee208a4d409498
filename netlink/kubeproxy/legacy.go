package kubeproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The interface of iptables before there was nftables (linux/netfilter/x_tables.h); that of
// IPv6 has the same numbers.
const (
	soGetInfo       = 64
	soGetEntries    = 65
	tableNameSize   = 32
	getInfoSize     = 84 // struct ipt_getinfo
	offsetSize      = 80 // its member size: bytes of all entries
	getEntriesStart = 40 // struct ipt_get_entries: name, size, padding
)

// inLegacyTables looks into the tables of iptables-legacy. Those that are not in use are
// not touched: to ask for one would make it.
func inLegacyTables() (string, error) {
	for _, v := range []struct {
		names         string
		domain, level int
	}{
		{"/proc/thread-self/net/ip_tables_names", unix.AF_INET, unix.SOL_IP},
		{"/proc/thread-self/net/ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6},
	} {
		names, err := os.ReadFile(v.names)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the kernel has no such tables
		}
		if err != nil {
			return "", fmt.Errorf("looking for the chains of kube-proxy: %w", err)
		}
		if !slices.Contains(strings.Fields(string(names)), natIP) {
			continue
		}
		entries, err := legacyEntries(v.domain, v.level)
		if err != nil {
			return "", fmt.Errorf("looking for the chains of kube-proxy in iptables-legacy: %w", err)
		}
		// A chain begins with an entry that has its name.
		if bytes.Contains(entries, append([]byte(chain), 0)) {
			return fmt.Sprintf("chain %s of iptables-legacy", chain), nil
		}
	}
	return "", nil
}

// legacyEntries returns the table nat as the kernel has it.
func legacyEntries(domain, level int) ([]byte, error) {
	fd, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		info := make([]byte, getInfoSize)
		copy(info, natIP)
		if err := getsockopt(fd, level, soGetInfo, info); err != nil {
			return nil, err
		}
		size := *(*uint32)(unsafe.Pointer(&info[offsetSize]))
		entries := make([]byte, getEntriesStart+int(size))
		copy(entries, natIP)
		*(*uint32)(unsafe.Pointer(&entries[tableNameSize])) = size
		err := getsockopt(fd, level, soGetEntries, entries)
		if errors.Is(err, unix.EAGAIN) { // changed in between
			continue
		}
		return entries[getEntriesStart:], err
	}
}

func getsockopt(fd, level, option int, buffer []byte) error {
	size := uint32(len(buffer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
