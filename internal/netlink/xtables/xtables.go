// Package xtables reads the tables of iptables-legacy from the kernel (linux/netfilter/x_tables.h,
// linux/netfilter_ipv4/ip_tables.h, linux/netfilter_ipv6/ip6_tables.h).
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

type Family struct {
	// Number of the family in netfilter and sockets.
	Number        uint8
	level         int
	names         string // the file with the names of tables
	address       int    // bytes of an address
	entry, extras int    // size of an entry, offset of the part after the IP header
	gotoFlag      uint8
}

var (
	IPv4 = Family{unix.AF_INET, unix.SOL_IP, "/proc/thread-self/net/ip_tables_names", 4, 112, 84, 2}
	IPv6 = Family{unix.AF_INET6, unix.SOL_IPV6, "/proc/thread-self/net/ip6_tables_names", 16, 168, 136, 4}
)

// IPv6 has the same values.
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

// InUse returns the tables in use in the current network namespace. Reading another table would
// create it.
func InUse(f Family) ([]string, error) {
	names, err := os.ReadFile(f.names)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the kernel lacks these tables
	}
	return strings.Fields(string(names)), err
}

// Table is a table with its chains in order.
type Table struct {
	Name   string
	Chains []Chain
}

// Chain is a user chain or a base chain.
type Chain struct {
	Name string
	// Base: a base chain at Hook; Drop is its policy.
	Base bool
	Hook uint32
	Drop bool

	Rules []*Rule
}

// Rule is a rule of a chain. Addresses and masks have the length of the family.
type Rule struct {
	Src, SrcMask, Dst, DstMask []byte
	In, Out                    string // prefix of a device name; the whole name if it ends with a zero byte
	Protocol                   uint8
	Fragments                  bool  // matches fragments, or all but fragments
	Inverted                   uint8 // Inverted* bits
	Matches                    []Extension
	Target                     Extension
	// Verdict and Chain are used if the target has no name.
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
		if errors.Is(err, unix.EAGAIN) { // the table changed in between
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
