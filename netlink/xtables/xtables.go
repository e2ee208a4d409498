// Package xtables reads the tables of iptables-legacy as the kernel has them
// (linux/netfilter/x_tables.h, linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h).
package xtables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Family is an IP version.
type Family struct {
	// Number is that of netfilter and of sockets.
	Number        uint8
	level         int
	names         string // the file with the names of tables
	address       int    // bytes of one
	entry, extras int    // sizes of an entry, and of its IP part
	gotoFlag      uint8
}

// The families that have tables.
var (
	IPv4 = Family{unix.AF_INET, unix.SOL_IP, "/proc/thread-self/net/ip_tables_names", 4, 112, 84, 2}
	IPv6 = Family{unix.AF_INET6, unix.SOL_IPV6, "/proc/thread-self/net/ip6_tables_names", 16, 168, 136, 4}
)

// Those of IPv6 have the same numbers.
const (
	soGetInfo       = 64
	soGetEntries    = 65
	tableNameSize   = 32
	getInfoSize     = 84 // struct ipt_getinfo
	getEntriesStart = 40 // struct ipt_get_entries: name, size, padding
	hooks           = 5
	extensionHead   = 32 // struct xt_entry_match, xt_entry_target: size, name, revision
	verdictReturn   = -5 // XT_RETURN
)

// InUse names the tables of the present network namespace. To ask for another one would make it.
func InUse(f Family) ([]string, error) {
	names, err := os.ReadFile(f.names)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the kernel has no such tables
	}
	return strings.Fields(string(names)), err
}

// Table is one, with its chains in the order in which they are in it.
type Table struct {
	Name   string
	Chains []Chain
}

// Chain is one of the user, or one that packets come by.
type Chain struct {
	Name string
	// Base: packets come by, at the hook with the number. Policy drop: what no rule accepts is dropped.
	Base bool
	Hook uint32
	Drop bool

	Rules []*Rule
}

// Rule is one of a chain. Masks and networks are of the bytes that count.
type Rule struct {
	Src, SrcMask, Dst, DstMask []byte
	In, Out                    string // the beginning of a device's name; with a zero byte: all of it
	Protocol                   uint8
	Fragments                  bool  // it is for fragments, or not for them
	Inverted                   uint8 // see the constants
	Matches                    []Extension
	Target                     Extension
	// Verdict and Chain, if the target has no name.
	Verdict Verdict
	Chain   string
}

// Bits of Rule.Inverted.
const (
	InvertedIn       = 0x01
	InvertedOut      = 0x02
	InvertedSrc      = 0x08
	InvertedDst      = 0x10
	InvertedProtocol = 0x40
)

// Verdict of a rule whose target has no name.
type Verdict int

// Verdicts.
const (
	Drop Verdict = iota
	Accept
	Return
	Jump
	Goto
)

// Extension is a match or a target.
type Extension struct {
	Name     string
	Revision uint8
	Data     []byte
}

// Read reads a table that is in use.
func Read(f Family, name string) (*Table, error) {
	fd, err := unix.Socket(int(f.Number), unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for {
		info := make([]byte, getInfoSize)
		copy(info[:tableNameSize-1], name)
		if err := getsockopt(fd, f.level, soGetInfo, info); err != nil {
			return nil, fmt.Errorf("reading table %s: %w", name, err)
		}
		size := binary.NativeEndian.Uint32(info[getInfoSize-4:])
		entries := make([]byte, getEntriesStart+int(size))
		copy(entries[:tableNameSize-1], name)
		binary.NativeEndian.PutUint32(entries[tableNameSize:], size)
		err := getsockopt(fd, f.level, soGetEntries, entries)
		if errors.Is(err, unix.EAGAIN) { // changed in between
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the rules of table %s: %w", name, err)
		}
		return parse(f, name, info, entries[getEntriesStart:])
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
