package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	stdin  = 0
	stdout = 1
	stderr = 2
	status = 3
)

// apiServer serves a pod with an agent at the test's socket, and a pod whose agent is not running.
func apiServer(t *testing.T, socket string) (kubeconfig string) {
	t.Helper()
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	for _, agent := range []struct {
		node  string
		phase corev1.PodPhase
	}{{"node2", corev1.PodPending}, {"node1", corev1.PodRunning}} {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-" + agent.node}, Spec: corev1.PodSpec{NodeName: agent.node}, Status: corev1.PodStatus{Phase: agent.phase}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("labelSelector") == label {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(pods)
		}
	})
	mux.HandleFunc("GET /api/v1/namespaces/kube-system/pods/agent-node1/exec", func(w http.ResponseWriter, r *http.Request) {
		want := "contivctl relay /var/run/contiv/agent.sock"
		if got := strings.Join(r.URL.Query()["command"], " "); got != want || r.FormValue("container") != container {
			t.Errorf("exec of %q in %s, want %q", got, r.FormValue("container"), want)
		}
		upgrader := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.Close()
		relay(ws, socket)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func relay(ws *websocket.Conn, socket string) {
	send := func(channel byte, text string) {
		_ = ws.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...))
	}
	agent, err := net.Dial("unix", socket)
	if err != nil {
		send(stderr, "contivctl: "+err.Error())
		send(status, `{"metadata":{},"status":"Failure","reason":"NonZeroExitCode","message":"exit code 1","details":{"causes":[{"reason":"ExitCode","message":"1"}]}}`)
		return
	}
	defer agent.Close()
	go func() {
		defer agent.Close()
		for {
			_, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if len(message) > 1 && message[0] == stdin {
				_, _ = agent.Write(message[1:])
			}
		}
	}()
	buffer := make([]byte, 4096)
	for {
		n, err := agent.Read(buffer)
		if n > 0 {
			send(stdout, string(buffer[:n]))
		}
		if err != nil {
			send(status, `{"metadata":{},"status":"Success"}`)
			return
		}
	}
}

func TestAgents(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	kubeconfig := apiServer(t, socket)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	agents, err := Agents(ctx, kubeconfig, "")
	if err != nil || len(agents) != 2 || agents[0].Name != "node1" {
		t.Fatalf("agents %v, error %v; want them by the names of their nodes", agents, err)
	}
	for _, a := range agents {
		var answer string
		err := a.Get(ctx, "/about", nil, &answer)
		switch want := map[string]string{"node1": "connect: no such file or directory", "node2": "is Pending: see kubectl"}[a.Name]; {
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", a.Name, err, want)
		}
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, `"it is `+r.URL.Path+`"`) }))
	for _, a := range agents {
		var answer string
		if err := a.Get(ctx, "/about", nil, &answer); a.Name == "node1" && (err != nil || answer != "it is /about") {
			t.Errorf("%q, %v", answer, err)
		}
	}
}

func TestNamedKubeconfigLeadsToACluster(t *testing.T) {
	dir := t.TempDir()
	good, empty, none := apiServer(t, filepath.Join(dir, "agent.sock")), filepath.Join(dir, "empty"), filepath.Join(dir, "none")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	for _, test := range []struct {
		name, flag, variable string
		want                 string // part of the error
	}{
		{"missing, by the flag", none, good, "--kubeconfig: stat " + none + ": no such file"},
		{"missing, by the environment", "", none, "KUBECONFIG: stat " + none + ": no such file"},
		{"several, all missing", "", none + ":" + none + "2", "KUBECONFIG: none of its 2 files exists: stat " + none},
		{"several, one missing", "", none + ":" + good, ""},
		{"empty, by the flag", empty, "", "--kubeconfig: "},
		{"empty, by the environment", "", empty, "KUBECONFIG: " + empty + " selects no cluster"},
		{"by the environment", "", good, ""},
	} {
		t.Setenv("KUBECONFIG", test.variable)
		agents, err := Agents(t.Context(), test.flag, "")
		switch {
		case test.want == "" && (err != nil || len(agents) == 0):
			t.Errorf("%s: agents %v, error %v", test.name, agents, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: agents %v, error %v; want %q", test.name, agents, err, test.want)
		}
	}
	t.Setenv("KUBECONFIG", "")
	if agents, err := Agents(t.Context(), "", ""); agents != nil || err != nil {
		t.Errorf("none is named: agents %v, error %v", agents, err)
	}
}
