// Package shortcut serves the most frequent calls of contiv-cni before the program is initialised. What Go
// initialises for JSON, networking and logging takes longer than the call.
//
//	start of the process ─> runtime, syscall ─> shortcut ─┬─> agent ─> result, end of the process
//	                                                      └─> all other packages ─> main
//
// It carries ADD, DEL and CHECK to the agent as the runtime made them (cniwire.Invocation), and prints what the agent
// says. Whatever is unusual it leaves to main: other commands, an agent that is not reachable, is older or
// declines, configurations that are large or whose socket it cannot find. The agent may see a call twice
// then, which the CNI specification allows for runtimes as well.
//
// Go initialises packages in the order of their import paths, each one as soon as its imports are (see the language's
// specification). This package must import nothing but syscall: what else it imported would be initialised before it,
// and its imports. A test of contiv-cni compares the order.
package shortcut

import "syscall"

const (
	magic         = "CNI2" // cniwire.InvocationMagic
	defaultServer = "/var/run/contiv/cni.sock"
	maxStdin      = 1 << 20
	maxAnswer     = 4 << 20
	maxLogSize    = 8 << 20
	// What the package cni says in this case.
	tooLate = `{"code":11,"msg":"the Contiv agent cannot serve the request now","details":"the agent did not answer in time"}`
)

// taken is what was read of standard input.
var taken []byte

// Taken returns what this package has read of standard input before it left the call to main.
func Taken() []byte { return taken }

func init() {
	began := now()
	var timeout int64 // seconds
	command := getenv("CNI_COMMAND")
	switch command {
	case "ADD", "DEL":
		timeout = 60
	case "CHECK":
		timeout = 30
	default:
		return
	}
	netns := getenv("CNI_NETNS")
	if isOurs(netns) || !readStdin() {
		return
	}
	server := serverOf(taken)
	if server == "" {
		return
	}
	timing := getenv("CONTIV_CNI_TIMING")
	called := now()
	answer := call(server, timeout, server, command, getenv("CNI_CONTAINERID"), netns, getenv("CNI_IFNAME"), getenv("CNI_ARGS"), getenv("CNI_PATH"), timing, string(taken))
	answered := now()
	if answer.declined {
		return
	}
	write(1, []byte(answer.stdout))
	if answer.log != "" {
		appendLog(answer.logFile, answer.log)
	}
	if timing != "" && answer.timing != "" {
		appendTo(timing, answer.timing+`,"rpc_ns":`+decimal(answered-called)+`,"total_ns":`+decimal(now()-began)+"}\n")
	}
	if answer.failed {
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func getenv(name string) string {
	value, _ := syscall.Getenv(name)
	return value
}

// now is in nanoseconds.
func now() int64 {
	var t syscall.Timeval
	syscall.Gettimeofday(&t)
	return t.Nano()
}

// isOurs reports whether the path is that of the network namespace of this process, which the CNI library
// refuses for a container.
func isOurs(netns string) bool {
	var own, other syscall.Stat_t
	return syscall.Stat(netns, &other) == nil && (syscall.Stat("/proc/self/ns/net", &own) != nil || own.Dev == other.Dev && own.Ino == other.Ino)
}

// readStdin reports whether all of it has been read into taken.
func readStdin() bool {
	taken = make([]byte, 0, 4<<10)
	for {
		if len(taken) == cap(taken) {
			taken = append(taken, 0)[:len(taken)]
		}
		n, err := syscall.Read(0, taken[len(taken):cap(taken)])
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return false
		case n == 0:
			return true
		default:
			if taken = taken[:len(taken)+n]; len(taken) > maxStdin {
				return false
			}
		}
	}
}

// serverOf returns the socket of the agent that a configuration names; "" if that takes a reader of JSON to find
// out. The agent declines if it was something else after all.
func serverOf(config []byte) string {
	const name = `"grpcServer"`
	at := index(config, name)
	if at < 0 {
		return defaultServer
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
	for i, c := range rest {
		switch {
		case c == '"':
			return string(rest[:i])
		case c == '\\' || c < ' ':
			return ""
		}
	}
	return ""
}

func index(data []byte, text string) int {
	for i := 0; i+len(text) <= len(data); i++ {
		if data[i] == text[0] && string(data[i:i+len(text)]) == text {
			return i
		}
	}
	return -1
}

func skipSpace(data []byte) []byte {
	for len(data) > 0 && (data[0] == ' ' || data[0] == '\t' || data[0] == '\n' || data[0] == '\r') {
		data = data[1:]
	}
	return data
}

// answer is a cniwire.Outcome.
type answer struct {
	declined, failed     bool
	stdout, logFile, log string
	timing               string
}

// call sends the fields of a cniwire.Invocation and returns the answer.
func call(server string, timeout int64, fields ...string) answer {
	declined := answer{declined: true}
	late := answer{failed: true, stdout: tooLate}
	socket, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return declined
	}
	limit := syscall.Timeval{Sec: timeout}
	for _, option := range []int{syscall.SO_SNDTIMEO, syscall.SO_RCVTIMEO} {
		if err := syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, option, &limit); err != nil {
			return declined
		}
	}
	switch err := syscall.Connect(socket, &syscall.SockaddrUnix{Name: server}); err {
	case nil:
	case syscall.EAGAIN, syscall.EINPROGRESS:
		return late
	default:
		return closed(socket)
	}
	frame := append([]byte(magic), 0, 0, 0, 0)
	for _, field := range fields {
		frame = append(appendLength(frame, len(field)), field...)
	}
	copy(frame[len(magic):], appendLength(nil, len(frame)-len(magic)-4))
	write(socket, frame) // if that fails, so does reading
	var head [len(magic) + 4]byte
	if err := readFull(socket, head[:]); err == syscall.EAGAIN {
		return late
	} else if err != nil || string(head[:len(magic)]) != magic {
		return closed(socket)
	}
	size := length(head[len(magic):])
	if size > maxAnswer {
		return closed(socket)
	}
	data := make([]byte, size)
	if err := readFull(socket, data); err == syscall.EAGAIN {
		return late
	} else if err != nil {
		return closed(socket)
	}
	var got [6]string
	for i := range got {
		if len(data) < 4 || length(data) > len(data)-4 {
			return closed(socket)
		}
		n := 4 + length(data)
		got[i], data = string(data[4:n]), data[n:]
	}
	if got[0] != "" {
		return closed(socket)
	}
	return answer{failed: got[1] != "", stdout: got[2], logFile: got[3], log: got[4], timing: got[5]}
}

// closed ends a connection that was of no use.
func closed(socket int) answer {
	syscall.Close(socket)
	return answer{declined: true}
}

func appendLength(data []byte, n int) []byte {
	return append(data, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func length(data []byte) int {
	return int(data[0])<<24 | int(data[1])<<16 | int(data[2])<<8 | int(data[3])
}

func readFull(file int, data []byte) error {
	for len(data) > 0 {
		n, err := syscall.Read(file, data)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case n == 0:
			return syscall.EPIPE
		default:
			data = data[n:]
		}
	}
	return nil
}

func write(file int, data []byte) {
	for len(data) > 0 {
		n, err := syscall.Write(file, data)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		default:
			data = data[n:]
		}
	}
}

// appendLog is openLog of the package cni.
func appendLog(path, text string) {
	var info syscall.Stat_t
	if syscall.Stat(path, &info) == nil && info.Mode&syscall.S_IFMT == syscall.S_IFREG && info.Size > maxLogSize {
		_ = syscall.Rename(path, path+".1")
	}
	appendTo(path, text)
}

// appendTo does what it can: without a log, the call is as good.
func appendTo(path, text string) {
	file, err := syscall.Open(path, syscall.O_CREAT|syscall.O_APPEND|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o600)
	if err == nil {
		write(file, []byte(text))
	}
}

func decimal(n int64) string {
	var digits [20]byte
	at := len(digits)
	for n > 0 || at == len(digits) {
		at--
		digits[at] = byte('0' + n%10)
		n /= 10
	}
	return string(digits[at:])
}
