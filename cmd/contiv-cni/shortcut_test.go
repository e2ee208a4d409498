package main_test

import (
	"bytes"
	"encoding/json"
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

// What the shortcut saves is the initialisation of everything else. It has ended the process by then.
func TestTheShortcutComesFirst(t *testing.T) {
	socket := listen(t, &agent{reply: podReply()})
	initialised := func(command string) []string {
		cmd := exec.Command(binary)
		cmd.Env = []string{"GODEBUG=inittrace=1", "CNI_COMMAND=" + command, "CNI_CONTAINERID=c1", "CNI_NETNS=/var/run/netns/no-such-namespace", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin"}
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion":"1.1.0","name":"n","type":"contiv-cni","grpcServer":%q,"logFile":%q}`, socket, filepath.Join(t.TempDir(), "log")))
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		var packages []string
		for _, match := range regexp.MustCompile(`(?m)^init (\S+) @`).FindAllStringSubmatch(stderr.String(), -1) {
			packages = append(packages, match[1])
		}
		return packages
	}
	for _, heavy := range []string{"os", "time", "net", "encoding/json"} {
		if all := initialised("VERSION"); !slices.Contains(all, heavy) {
			t.Errorf("%s is not among the initialised packages: %v", heavy, all)
		}
		if first := initialised("ADD"); slices.Contains(first, heavy) {
			t.Errorf("%s is initialised before ADD is served: %v", heavy, first)
		}
	}
}

// calls returns a socket, and the magic words of the calls that are made there. Each is answered with the text.
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
	for name, test := range map[string]struct {
		call   call
		answer string
		want   string
	}{
		"the agent declines":           {call{command: "ADD"}, declined, "CNI2 CNI1"},
		"the agent is older":           {call{command: "DEL"}, "\x00\x00\x18\x04HTTP/2", "CNI2 CNI1"},
		"the agent says nothing":       {call{command: "ADD"}, "", "CNI2 CNI1"},
		"the agent ends too early":     {call{command: "ADD"}, cniwire.InvocationMagic + "\x00\x00\x00\x04\x00\x00\x00\x01", "CNI2 CNI1"},
		"the agent is talkative":       {call{command: "ADD"}, cniwire.InvocationMagic + "\xff\xff\xff\xff", "CNI2 CNI1"},
		"STATUS":                       {call{command: "STATUS"}, declined, "CNI1"},
		"large configurations":         {call{command: "ADD", config: map[string]any{"x": strings.Repeat("x", 1<<20)}}, declined, "CNI1"},
		"the namespace is of the node": {call{command: "ADD", env: []string{"CNI_NETNS=/proc/self/ns/net"}}, declined, "CNI1"},
	} {
		t.Run(name, func(t *testing.T) {
			socket, took := calls(t, test.answer)
			test.call.socket = socket
			if _, failure := test.call.run(t); failure == nil {
				t.Error("no failure")
			}
			if got := strings.Join(took(), " "); got != test.want {
				t.Errorf("calls %q, want %q", got, test.want)
			}
		})
	}
}

// Both ways have the same result, whatever the agent says.
func TestBothWaysEndAlike(t *testing.T) {
	long := `"x":"` + strings.Repeat("x", 1<<20) + `",` // too much for the shortcut
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
					return fmt.Sprint(stdout.String(), err)
				}
				if short, full := run(""), run(long); short != full {
					t.Errorf("%s, %s, %s: shortcut:\n%s\nlong way:\n%s", name, command, version, short, full)
				}
			}
		}
	}
}

// The configuration is read without a reader of JSON: whom it misleads, the agent tells.
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
