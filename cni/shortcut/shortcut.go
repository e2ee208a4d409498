// Package shortcut serves the most frequent calls of contiv-cni before the Go runtime starts.
// Starting the runtime and initialising a CNI plugin's packages would take longer than the call.
//
//	start of the process ─> shortcut ─┬─> agent ─> result, end of the process
//	                                  └─> Go runtime ─> all packages ─> main
//
// It forwards ADD, DEL and CHECK to the agent as a cniwire.Invocation and prints the answer. It
// leaves all other cases to main: other commands, an unreachable or older agent, an agent that
// declines, and configurations that are large or whose socket it cannot find. The agent may then
// see a call twice, which the CNI specification allows.
//
// The shortcut needs the linker option -ldflags '-E contiv_cni_start', which names the first
// instruction of entry_amd64.s or entry_arm64.s. Without it, the program starts as any Go program.
//
// The code runs without the Go runtime. It only calls itself, syscall.RawSyscall, and functions
// that the compiler generates for len, copy and ==. It must not allocate: no append, concatenation,
// closure, map, or conversion to an interface. It must not panic: it checks every index. It must
// not use goroutines, defer or recover. Violations end in SIGSEGV; a test of contiv-cni checks the
// calls.
package shortcut

import (
	"syscall"
	"unsafe"
)

const (
	magic         = "CNI2" // cniwire.InvocationMagic
	defaultServer = "/var/run/contiv/cni.sock"
	maxLogSize    = 8 << 20
	tooLate       = `{"code":11,"msg":"the Contiv agent cannot serve the request now","details":"the agent did not answer in time"}`
)

var (
	stdin   [256 << 10]byte
	request [512 << 10]byte
	answer  [256 << 10]byte
	// taken is the number of bytes read from stdin, or -1 before reading.
	taken = -1
)

// Taken returns the bytes that this package consumed from standard input, or nil if it did not
// read.
func Taken() []byte {
	if taken < 0 {
		return nil
	}
	return stdin[:taken]
}

// beforeRuntime is called by the first instruction of the process. stack is the kernel's initial
// stack: the argument count, a pointer to each argument, nil, a pointer to each environment
// variable, and nil.
//
//lint:ignore U1000 staticcheck does not see calls of assembly.
func beforeRuntime(stack *uintptr) {
	if arguments := *stack; arguments <= 1 {
		serve(environment{(**byte)(unsafe.Add(unsafe.Pointer(stack), (arguments+2)*pointerSize))})
	}
}

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

// isOurs reports whether the path is this process's network namespace, which the CNI library
// rejects.
func isOurs(netns string) bool {
	var own, other syscall.Stat_t
	return stat(netns, &other) && (!stat("/proc/self/ns/net", &own) || own.Dev == other.Dev && own.Ino == other.Ino)
}

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

// serverOf returns the agent's socket in a configuration, or "" if only a JSON parser could find
// it. The agent declines calls for another socket.
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

// call sends a message and returns the fields of the answer, or "" if the answer is invalid. late
// means that the agent did not accept or answer in time.
func call(server string, timeout int64, sent string) (got string, late bool) {
	socket, err := connect(server, timeout)
	if err == 0 {
		send(socket, sent) // after an error, reading fails, too
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
