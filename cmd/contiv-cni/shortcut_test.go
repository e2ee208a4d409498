package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/api/contiv/cniwire"
)

// The shortcut saves the start of the Go runtime, which reports the packages that it initialises.
func TestTheShortcutComesFirst(t *testing.T) {
	socket := listen(t, &agent{reply: podReply()})
	initialised := func(command string) string {
		cmd := exec.Command(binary)
		cmd.Env = []string{"GODEBUG=inittrace=1", "CNI_COMMAND=" + command, "CNI_CONTAINERID=c1", "CNI_NETNS=/var/run/netns/no-such-namespace", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin"}
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"contiv-cni","grpcServer":%q,"logFile":%q}`, socket, filepath.Join(t.TempDir(), "log")))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return stderr.String()
	}
	if all := initialised("VERSION"); !strings.Contains(all, "init encoding/json ") {
		t.Errorf("VERSION: encoding/json is not initialised: %s", all)
	}
	if first := initialised("ADD"); first != "" {
		t.Errorf("before ADD is served: %s", first)
	}
}

// Before the Go runtime starts, everything that needs it ends the process: heap memory, growing
// stacks, panics. The code contains panics for index errors and calls of the garbage collector, but
// never reaches them.
func TestTheShortcutNeedsNoRuntime(t *testing.T) {
	const shortcut = "github.com/contiv/contiv/cni/shortcut."
	allowed := regexp.MustCompile(`^(` + regexp.QuoteMeta(shortcut) + `.*|syscall\.RawSyscall6?|internal/runtime/syscall/linux\.Syscall6|_rt0_(amd64|arm64)_linux|` +
		`runtime\.(memequal|memmove|memclrNoHeapPointers|panicBounds|panicdivide|panicunsafestring\w+|morestack_noctxt|gcWriteBarrier\d)(\.abi0)?)$`)
	for _, arch := range []string{"amd64", "arm64"} {
		t.Run(arch, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "contiv-cni")
			build := exec.Command("go", "build", "-ldflags", startFlag, "-o", program, ".")
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := exec.Command("go", "tool", "objdump", "-s", "^contiv_cni_start$|^"+regexp.QuoteMeta(shortcut), program).Output()
			if err != nil {
				t.Fatal(err)
			}
			called := map[string]bool{}
			for _, match := range regexp.MustCompile(`(?:CALL|JMP) (\S+)\(SB\)`).FindAllStringSubmatch(string(out), -1) {
				called[match[1]] = true
			}
			for name := range called {
				if !allowed.MatchString(name) {
					t.Errorf("the shortcut calls %s", name)
				}
			}
			if !called[shortcut+"serve"] || !called["syscall.RawSyscall"] && !called["syscall.RawSyscall6"] && !called["internal/runtime/syscall/linux.Syscall6"] {
				t.Errorf("the shortcut is not found in the program: it calls %v", called)
			}
		})
	}
}

// calls returns a socket, and the magic words of the calls received on it. It answers each with the
// text.
func calls(t *testing.T, answer string) (socket string, took func() []string) {
	var mu sync.Mutex
	var words []string
	socket = brokenAgent(t, func(conn net.Conn) {
		var magic [4]byte
		if _, err := conn.Read(magic[:]); err != nil {
			t.Error(err)
		}
		mu.Lock()
		words = append(words, string(magic[:]))
		mu.Unlock()
		_, _ = conn.Read(make([]byte, 1<<20))
		fmt.Fprint(conn, answer)
	})
	return socket, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(words)
	}
}

func TestTheLongWayIsTakenIfTheShortcutLeadsNowhere(t *testing.T) {
	declined := fmt.Sprintf("%s\x00\x00\x00\x19\x00\x00\x00\x01D%s", cniwire.InvocationMagic, strings.Repeat("\x00", 20))
	large := strings.Repeat("x", 100<<10)
	for name, test := range map[string]struct {
		call   call
		answer string
		want   string
	}{
		"the agent declines":           {call{command: "ADD"}, declined, "CNI2 CNI1"},
		"the agent is older":           {call{command: "DEL"}, "\x00\x00\x18\x04HTTP/2", "CNI2 CNI1"},
		"the agent says nothing":       {call{command: "ADD"}, "", "CNI2 CNI1"},
		"the agent ends too early":     {call{command: "ADD"}, cniwire.InvocationMagic + "\x00\x00\x00\x04\x00\x00\x00\x01", "CNI2 CNI1"},
		"the answer is large":          {call{command: "ADD"}, cniwire.InvocationMagic + "\x00\x04\x00\x01" + strings.Repeat("\x00", 256<<10+1), "CNI2 CNI1"},
		"the answer has fewer fields":  {call{command: "ADD"}, cniwire.InvocationMagic + "\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x05", "CNI2 CNI1"},
		"the agent is talkative":       {call{command: "ADD"}, cniwire.InvocationMagic + "\xff\xff\xff\xff", "CNI2 CNI1"},
		"STATUS":                       {call{command: "STATUS"}, declined, "CNI1"},
		"large configurations":         {call{command: "ADD", config: map[string]any{"x": strings.Repeat("x", 256<<10)}}, declined, "CNI1"},
		"large variables":              {call{command: "ADD", config: map[string]any{"x": strings.Repeat("x", 250<<10)}, env: []string{"CNI_PATH=" + large, "CNI_ARGS=K8S_POD_NAMESPACE=x;K8S_POD_NAME=" + large, "CONTIV_CNI_TIMING=" + large}}, declined, "CNI1"},
		"the socket's path is long":    {call{command: "ADD", socket: "/" + strings.Repeat("x", 107)}, "", ""},
		"the namespace is of the node": {call{command: "ADD", env: []string{"CNI_NETNS=/proc/self/ns/net"}}, declined, "CNI1"},
	} {
		t.Run(name, func(t *testing.T) {
			socket, took := calls(t, test.answer)
			if test.call.socket == "" {
				test.call.socket = socket
			}
			if _, failure := test.call.run(t); failure == nil {
				t.Error("no failure")
			}
			if got := strings.Join(took(), " "); got != test.want {
				t.Errorf("calls %q, want %q", got, test.want)
			}
		})
	}
}

// The shortcut and the full program give the same result for every answer of the agent.
func TestBothWaysEndAlike(t *testing.T) {
	long := `"x":"` + strings.Repeat("x", 1<<20) + `",` // too large for the shortcut
	for name, a := range map[string]*agent{"success": {reply: podReply()}, "failure": {err: fmt.Errorf("no")}} {
		socket := listen(t, a)
		for _, command := range []string{"ADD", "DEL", "CHECK"} {
			for _, version := range []string{"0.2.0", "0.4.0", "1.1.0", "9.9.9"} {
				run := func(more string) string {
					cmd := exec.Command(binary)
					cmd.Env = []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=c1", "CNI_NETNS=/var/run/netns/no-such-namespace", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin"}
					cmd.Stdin = strings.NewReader(fmt.Sprintf(`{%s"cniVersion":%q,"name":"n","type":"contiv-cni", "grpcServer" : %q,"logFile":%q,"prevResult":{"cniVersion":%[2]q}}`,
						more, version, socket, filepath.Join(t.TempDir(), "log")))
					var stdout bytes.Buffer
					cmd.Stdout = &stdout
					err := cmd.Run()
					var exit *exec.ExitError
					if err != nil && !errors.As(err, &exit) {
						t.Fatal(err)
					}
					return fmt.Sprint(stdout.String(), err)
				}
				if short, full := run(""), run(long); short != full {
					t.Errorf("%s, %s, %s: shortcut:\n%s\nlong way:\n%s", name, command, version, short, full)
				}
			}
		}
	}
}

// The shortcut finds the socket without a JSON parser. If the configuration misleads it, the agent
// reports the error.
func TestTheSocketIsThatOfTheConfiguration(t *testing.T) {
	a, other := &agent{reply: podReply()}, &agent{reply: podReply()}
	right, wrong := listen(t, a), listen(t, other)
	for _, config := range []string{
		`{"x":{"grpcServer":"` + wrong + `"},"grpcServer":"` + right + `",`,
		`{"x":"\"grpcServer\":","grpcServer":"` + right + `",`,
		`{"grpcServer":"` + strings.ReplaceAll(right, "/", `\/`) + `",`,
		`{"grpcServer":"` + strings.ReplaceAll(right, "/", `\u002f`) + `",`,
		`{"GRPCSERVER":"` + right + `",`,
	} {
		a.requests, other.requests = nil, nil
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS=/var/run/netns/no-such-namespace", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin")
		cmd.Stdin = strings.NewReader(config + `"cniVersion":"1.1.0","name":"n","type":"contiv-cni","logFile":"` + filepath.Join(t.TempDir(), "log") + `"}`)
		out, err := cmd.CombinedOutput()
		if err != nil || !json.Valid(out) || len(a.requests) != 1 || len(other.requests) != 0 {
			t.Errorf("%s: %v, %s; %d and %d requests", config, err, out, len(a.requests), len(other.requests))
		}
	}
}

func TestALongLogIsPutAside(t *testing.T) {
	for name, config := range map[string]map[string]any{"shortcut": {}, "long way": {"x": strings.Repeat("x", 1<<20)}} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "cni.log")
			const size = 8<<20 + 1
			if err := errors.Join(os.WriteFile(log, nil, 0o600), os.Truncate(log, size)); err != nil {
				t.Fatal(err)
			}
			config["logFile"] = log
			if _, failure := (call{command: "ADD", socket: listen(t, &agent{reply: podReply()}), config: config}).run(t); failure != nil {
				t.Fatal(failure)
			}
			aside, err := os.Stat(log + ".1")
			if err != nil || aside.Size() != size {
				t.Errorf("put aside: %v, %v", aside, err)
			}
			info, err := os.Stat(log)
			if err != nil || info.Size() == 0 || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
				t.Errorf("log: %v, %v", info, err)
			}
		})
	}
}
