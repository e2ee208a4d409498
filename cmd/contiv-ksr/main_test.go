package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
)

// TestMain lets the test binary run as contiv-ksr.
func TestMain(m *testing.M) {
	if os.Getenv("CONTIV_KSR_TEST_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func ksrCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CONTIV_KSR_TEST_MAIN=1", "ETCD_CONFIG=", "KUBECONFIG=", "KUBERNETES_SERVICE_HOST=")
	return cmd
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"

func TestManifestsAreReflectedUntilSIGTERM(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	etcd := etcdtest.Start(t)
	s := etcd.Store()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}

	p := startProcess(t, etcd, "--manifests", dir)
	p.awaitReady("contiv-ksr is ready: manifests=" + dir)
	const key = "/vnf-agent/contiv-ksr/k8s/pod/web/namespace/default"
	kv, ok, err := s.Get(ctx, key)
	if !ok || string(kv.Value) != `{"name":"web","namespace":"default"}` {
		t.Errorf("etcd holds %q, %v", kv.Value, err)
	}

	if status, body := p.get("/readiness"); status != http.StatusOK || !strings.Contains(body, `"role": "leader"`) {
		t.Errorf("/readiness: %d\n%s", status, body)
	}

	watch, err := s.Watch(ctx, kv.Revision, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	if batch := <-watch; len(batch.Changes) != 1 || !batch.Changes[0].Deleted {
		t.Errorf("after the manifest was removed: %+v", batch)
	}

	p.terminate()
}

func TestErrorsSayWhatToChange(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	badConfig := filepath.Join(dir, "etcd.conf")
	if err := os.WriteFile(badConfig, []byte("endpoint: [x]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "contiv-ksr: --manifests: no directory is given\n"},
		{[]string{"--manifests", "/does/not/exist"}, "create it, or name another one\n"},
		{[]string{"--manifests", dir, "--source", "cloud"}, `--source "cloud" is not known: use dir or kubernetes` + "\n"},
		{[]string{"--source", "kubernetes"}, "contiv-ksr: --kubeconfig: this is no pod of a cluster: name a kubeconfig file\n"},
		{[]string{"--source", "kubernetes", "--kubeconfig", "/does/not/exist"}, "/does/not/exist: no such file or directory\n"},
		{[]string{"--manifests", dir, "--leader-election", "--election-ttl", "1s"}, "--election-ttl: time to live of the leadership is 1s: use whole seconds, at least 2s\n"},
		{[]string{"--manifests", dir, "--resign-after", "0s"}, "--resign-after 0s: use a duration above 0\n"},
		{[]string{"--manifests", dir, "--metrics", ":9997"}, "--metrics needs --metrics-cert-file, --metrics-key-file and --metrics-client-ca-file\n"},
		{[]string{"--manifests", dir, "--etcd-config", badConfig}, `unknown key "endpoint": did you mean "endpoints"?` + "\n"},
		{[]string{"--manifests", dir, "--http", taken.Addr().String()}, "address already in use\n"},
	} {
		out, err := ksrCommand(c.args...).CombinedOutput()
		if err == nil || !strings.HasSuffix(string(out), c.want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: %v, output %q, want one line that ends in %q", c.args, err, out, c.want)
		}
	}
}
