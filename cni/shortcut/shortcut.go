// Package shortcut serves the most frequent calls of contiv-cni before the Go runtime starts. To start the runtime and
// to initialise what a CNI plugin links takes longer than the call.
//
//	start of the process ─> shortcut ─┬─> agent ─> result, end of the process
//	                                  └─> Go runtime ─> all packages ─> main
//
// It carries ADD, DEL and CHECK to the agent as the runtime made them (cniwire.Invocation), and prints what the agent
// says. Whatever is unusual it leaves to main: other commands, an agent that is not reachable, is older or
// declines, configurations that are large or whose socket it cannot find. The agent may see a call twice
// then, which the CNI specification allows for runtimes as well.
//
// The program begins here if it is linked with -ldflags '-E contiv_cni_start', which names the first instruction of
// entry_amd64.s or entry_arm64.s; linked otherwise, it begins as any Go program and works without the shortcut.
//
// No Go runtime means that this code must not need one. It calls nothing but itself, syscall.RawSyscall and functions
// that the compiler makes of len, copy and ==. It does not allocate: memory is that of global variables, and nothing
// is appended, concatenated, converted to an interface, or put into a closure or map. It does not panic: every index is
// checked before. It uses no goroutine, defer or recover. What breaks these rules ends the process by SIGSEGV; a test of
// contiv-cni looks at what is called.
package shortcut

import (
	"syscall"
	"unsafe"
)

const (
	magic         = "CNI2" // cniwire.InvocationMagic
	defaultServer = "/var/run/contiv/cni.sock"
	maxLogSize    = 8 << 20
	// What the package cni says in this case.
	tooLate = `{"code":11,"msg":"the Contiv agent cannot serve the request now","details":"the agent did not answer in time"}`
)

var (
	stdin   [256 << 10]byte
	request [512 << 10]byte
	answer  [256 << 10]byte
	// taken is how much of stdin has been read; -1: nobody tried.
	taken = -1
)

// Taken returns what this package has read of standard input before it left the call to main; nil if it did not.
func Taken() []byte {
	if taken < 0 {
		return nil
	}
	return stdin[:taken]
}

// beforeRuntime is called by the first instruction of the process. stack is what the kernel put there: the number of
// arguments, a pointer to each, nil, a pointer to each variable of the environment, and nil.
//
//lint:ignore U1000 staticcheck does not see calls of assembly.
func beforeRuntime(stack *uintptr) {
	if arguments := *stack; arguments <= 1 {
		serve(environment{(**byte)(unsafe.Add(unsafe.Pointer(stack), (arguments+2)*pointerSize))})
	}
}

// serve serves the call and ends the process, or returns if that is left to main.
func serve(env environment) {
	timing := env.get("CONTIV_CNI_TIMING")
	began := now(timing)
	var timeout int64 // seconds
	command := env.get("CNI_COMMAND")
	switch command {
	case "ADD", "DEL":
		timeout = 60
	case "CHECK":
		timeout = 30
	default:
		return
	}
	netns := env.get("CNI_NETNS")
	if isOurs(netns) || !readStdin() {
		return
	}
	config := text(stdin[:taken])
	server := serverOf(config)
	if server == "" {
		return
	}
	m := newMessage(request[:])
	m.field(server)
	m.field(command)
	m.field(env.get("CNI_CONTAINERID"))
	m.field(netns)
	m.field(env.get("CNI_IFNAME"))
	m.field(env.get("CNI_ARGS"))
	m.field(env.get("CNI_PATH"))
	m.field(timing)
	m.field(config)
	sent := m.finished()
	if sent == "" {
		return
	}
	called := now(timing)
	got, late := call(server, timeout, sent)
	answered := now(timing)
	if late {
		write(stdout, tooLate)
		exit(1)
	}
	r := reader{rest: got}
	declined, failed, printed, logFile, log, measured := r.field(), r.field(), r.field(), r.field(), r.field(), r.field()
	if r.short || declined != "" {
		return
	}
	write(stdout, printed)
	if log != "" {
		appendLog(logFile, log)
	}
	if measured != "" && timing != "" {
		reportTiming(timing, measured, answered-called, began)
	}
	if failed != "" {
		exit(1)
	}
	exit(0)
}

// isOurs reports whether the path is that of the network namespace of this process, which the CNI library
// refuses for a container.
func isOurs(netns string) bool {
	var own, other syscall.Stat_t
	return stat(netns, &other) && (!stat("/proc/self/ns/net", &own) || own.Dev == other.Dev && own.Ino == other.Ino)
}

// readStdin reports whether all of it has been read.
func readStdin() bool {
	for taken = 0; taken < len(stdin); {
		n, err := read(0, stdin[taken:])
		switch {
		case err == syscall.EINTR:
		case err != 0:
			return false
		case n == 0:
			return true
		default:
			taken += n
		}
	}
	return false
}

// serverOf returns the socket of the agent that a configuration names; "" if that takes a reader of JSON to find
// out. The agent declines if it was something else after all.
func serverOf(config string) string {
	const name = `"grpcServer"`
	at := 0
	for ; ; at++ {
		if len(config)-at < len(name) {
			return defaultServer
		}
		if config[at:at+len(name)] == name {
			break
		}
	}
	rest := skipSpace(config[at+len(name):])
	if len(rest) == 0 || rest[0] != ':' {
		return ""
	}
	rest = skipSpace(rest[1:])
	if len(rest) < 2 || rest[0] != '"' || rest[1] != '/' {
		return ""
	}
	rest = rest[1:]
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '"':
			return rest[:i]
		case c == '\\' || c < ' ':
			return ""
		}
	}
	return ""
}

func skipSpace(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t' || s[0] == '\n' || s[0] == '\r') {
		s = s[1:]
	}
	return s
}

// call sends a message and returns the fields of the answer; "" if there was none that can be understood.
// late: the agent did not accept or answer in time.
func call(server string, timeout int64, sent string) (got string, late bool) {
	socket, err := connect(server, timeout)
	if err == 0 {
		send(socket, sent) // if that fails, so does reading
		got, err = receive(socket)
		closeFile(socket)
	}
	return got, err == syscall.EAGAIN || err == syscall.EINPROGRESS
}

func receive(socket int) (got string, err syscall.Errno) {
	head := answer[:len(magic)+4]
	if err := readFull(socket, head); err != 0 {
		return "", err
	}
	size := length(text(head[len(magic):]))
	if text(head[:len(magic)]) != magic || size > len(answer) {
		return "", 0
	}
	err = readFull(socket, answer[:size])
	return text(answer[:size]), err
}

// appendLog is openLog of the package cni.
func appendLog(path, line string) {
	var info syscall.Stat_t
	if stat(path, &info) && info.Mode&syscall.S_IFMT == syscall.S_IFREG && info.Size > maxLogSize {
		putAside(path)
	}
	if file := openLog(path); file >= 0 {
		write(file, line)
	}
}

func reportTiming(path, start string, rpc, began int64) {
	file := openLog(path)
	if file < 0 {
		return
	}
	line := buffer{data: request[:]}
	line.add(start)
	line.add(`,"rpc_ns":`)
	line.decimal(rpc)
	line.add(`,"total_ns":`)
	line.decimal(now(path) - began)
	line.add("}\n")
	write(file, line.text())
}
