package main

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
)

const k8sPrefix = "/vnf-agent/contiv-ksr/k8s/"

// Two instances use one API server. One writes; when it ends, the other takes over.
func TestAPIServerIsReflectedByOneOfTwoInstances(t *testing.T) {
	etcd := etcdtest.Start(t)
	s := etcd.Store()
	kubeconfig, _ := startAPIServer(t, size{namespaces: 2, nodes: 3, pods: 50, services: 5, policies: 4}.lists())
	args := []string{"--source", "kubernetes", "--kubeconfig", kubeconfig, "--election-ttl", "10m", "--node-name"}
	a := startProcess(t, etcd, append(args, "a")...)
	a.awaitReady("contiv-ksr is ready: source=kubernetes http=[")

	kvs, _, err := s.List(context.Background(), k8sPrefix)
	if err != nil {
		t.Fatal(err)
	}
	held := make(map[string]int)
	for _, kv := range kvs {
		kind, _, _ := strings.Cut(strings.TrimPrefix(kv.Key, k8sPrefix), "/")
		held[kind]++
	}
	for kind, want := range map[string]int{"namespace": 2, "node": 3, "pod": 50, "service": 5, "endpointslice": 5, "policy": 4} {
		if held[kind] != want {
			t.Errorf("etcd holds %d of kind %s, want %d", held[kind], kind, want)
		}
	}

	b := startProcess(t, etcd, append(args, "b")...)
	b.awaitRole("standby")
	if status, body := b.get("/readiness"); status != http.StatusOK || !strings.Contains(body, `"objects": 69`) {
		t.Errorf("readiness of the standby: %d\n%s", status, body)
	}
	a.terminate()
	b.awaitReady("contiv-ksr is ready: source=kubernetes")
	after, _, err := s.List(context.Background(), k8sPrefix)
	if err != nil || len(after) != len(kvs) {
		t.Fatalf("etcd holds %d objects, %v", len(after), err)
	}
	for i := range after {
		if after[i].Revision != kvs[i].Revision {
			t.Errorf("%s was written again", after[i].Key)
		}
	}
	b.terminate()
}

// Each instance has its own API server.
func TestLeaderThatLosesItsAPIServerLeavesToTheOtherInstance(t *testing.T) {
	etcd := etcdtest.Start(t)
	lists := size{namespaces: 2, nodes: 3, pods: 50}.lists()
	first, cutOff := startAPIServer(t, lists)
	second, _ := startAPIServer(t, lists)
	args := []string{"--source", "kubernetes", "--election-ttl", "10m", "--resign-after", "1s", "--node-name"}
	a := startProcess(t, etcd, append(args, "a", "--kubeconfig", first)...)
	a.awaitReady("contiv-ksr is ready: source=kubernetes")
	b := startProcess(t, etcd, append(args, "b", "--kubeconfig", second)...)
	b.awaitRole("standby")
	cutOff()
	b.awaitRole("leader")
	a.awaitRole("candidate")
	if status, body := a.get("/readiness"); status != http.StatusOK || !strings.Contains(body, "the API server does not respond") {
		t.Errorf("readiness of the one that is cut off: %d\n%s", status, body)
	}
	a.terminate()
	b.terminate()
}
