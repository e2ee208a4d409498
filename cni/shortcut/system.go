package shortcut

import (
	"syscall"
	"unsafe"
)

const (
	pointerSize = unsafe.Sizeof(uintptr(0))
	stdout      = 1
	atFDCWD     = -100 // <linux/fcntl.h>
	openPath    = 0o10000000
)

type environment struct{ first **byte }

func (e environment) get(name string) string {
	for at := e.first; *at != nil; at = (**byte)(unsafe.Add(unsafe.Pointer(at), pointerSize)) {
		variable := cString(*at)
		if len(variable) > len(name) && variable[len(name)] == '=' && variable[:len(name)] == name {
			return variable[len(name)+1:]
		}
	}
	return ""
}

func cString(first *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(first), n)) != 0 {
		n++
	}
	return unsafe.String(first, n)
}

// path is the buffer for system calls. Linux paths have at most 4096 bytes.
var path, otherPath [4096]byte

// terminated copies a path into memory, with a final zero byte. It reports whether the path fits.
func terminated(memory *[4096]byte, path string) bool {
	if len(path) >= len(memory) {
		return false
	}
	n := copy(memory[:], path)
	memory[n] = 0
	return true
}

// open returns -1 on an error.
func open(name string, flags int) int {
	if !terminated(&path, name) {
		return -1
	}
	cwd := atFDCWD
	file, _, err := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), uintptr(flags|syscall.O_CLOEXEC), 0o600, 0, 0)
	if err != 0 {
		return -1
	}
	return int(file)
}

func openLog(name string) int { return open(name, syscall.O_CREAT|syscall.O_APPEND|syscall.O_WRONLY) }

func closeFile(file int) { _, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(file), 0, 0) }

func stat(name string, info *syscall.Stat_t) bool {
	file := open(name, openPath)
	if file < 0 {
		return false
	}
	_, _, err := syscall.RawSyscall(syscall.SYS_FSTAT, uintptr(file), uintptr(unsafe.Pointer(info)), 0)
	closeFile(file)
	return err == 0
}

func putAside(name string) {
	aside := buffer{data: otherPath[:]}
	aside.add(name)
	aside.add(".1\x00")
	if cwd := atFDCWD; !aside.full && terminated(&path, name) {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RENAMEAT, uintptr(cwd), uintptr(unsafe.Pointer(&path)), uintptr(cwd), uintptr(unsafe.Pointer(&otherPath)), 0, 0)
	}
}

// now returns nanoseconds, or 0 if timing is off.
func now(timing string) int64 {
	if timing == "" {
		return 0
	}
	var t syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0) // CLOCK_MONOTONIC
	return t.Sec*1e9 + t.Nsec
}

func connect(server string, timeout int64) (int, syscall.Errno) {
	address := syscall.RawSockaddrUnix{Family: syscall.AF_UNIX}
	if len(server) >= len(address.Path) {
		return -1, syscall.ENAMETOOLONG
	}
	for i := 0; i < len(server); i++ {
		address.Path[i] = int8(server[i])
	}
	file, _, err := syscall.RawSyscall(syscall.SYS_SOCKET, syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != 0 {
		return -1, err
	}
	socket := int(file)
	limit := syscall.Timeval{Sec: timeout}
	if err = setsockopt(socket, syscall.SO_SNDTIMEO, &limit); err == 0 {
		err = setsockopt(socket, syscall.SO_RCVTIMEO, &limit)
	}
	if err == 0 {
		_, _, err = syscall.RawSyscall(syscall.SYS_CONNECT, file, uintptr(unsafe.Pointer(&address)), unsafe.Sizeof(address))
	}
	if err != 0 {
		closeFile(socket)
	}
	return socket, err
}

func setsockopt(socket, option int, limit *syscall.Timeval) syscall.Errno {
	_, _, err := syscall.RawSyscall6(syscall.SYS_SETSOCKOPT, uintptr(socket), syscall.SOL_SOCKET, uintptr(option), uintptr(unsafe.Pointer(limit)), unsafe.Sizeof(*limit), 0)
	return err
}

func read(file int, memory []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_READ, uintptr(file), uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)))
	return int(n), err
}

func readFull(file int, memory []byte) syscall.Errno {
	for len(memory) > 0 {
		n, err := read(file, memory)
		switch {
		case err == syscall.EINTR:
		case err != 0:
			return err
		case n == 0:
			return syscall.EPIPE
		default:
			memory = memory[n:]
		}
	}
	return 0
}

func write(file int, s string) {
	for len(s) > 0 {
		n, _, err := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(file), uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(len(s)))
		if err == 0 {
			s = s[n:]
		} else if err != syscall.EINTR {
			return
		}
	}
}

// send writes without SIGPIPE.
func send(socket int, s string) {
	for len(s) > 0 {
		n, _, err := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(socket), uintptr(unsafe.Pointer(unsafe.StringData(s))), uintptr(len(s)), syscall.MSG_NOSIGNAL, 0, 0)
		if err == 0 {
			s = s[n:]
		} else if err != syscall.EINTR {
			return
		}
	}
}

func exit(code int) { _, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(code), 0, 0) }
