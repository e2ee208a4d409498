package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/e2e"
)

// contivLab runs contiv-lab like a user, in the machine's own namespace.
func contivLab(ctx context.Context, args ...string) (stdout string, err error) {
	return command(ctx, nil, filepath.Join(options.BinDir, "contiv-lab"), args...)
}

func command(ctx context.Context, env []string, program string, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// A second cluster runs next to the other tests'.
func TestContivLabGivesTheUserACluster(t *testing.T) {
	needCluster(t)
	name := fmt.Sprintf("u%d", os.Getpid())
	source, err := e2e.FindSource(filepath.Dir(options.Manifests[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if _, err := contivLab(ctx, "down", "--name", name); err != nil {
			t.Error(err)
		}
		if left, err := e2e.Leftovers(name); err != nil || len(left) > 0 {
			t.Errorf("after down: %q, %v", left, err)
		}
	})
	began := time.Now()
	said, err := contivLab(t.Context(), "up", "--kubernetes", "--nodes", "1", "--name", name, "--source", source, "--cache", os.Getenv(cacheVariable))
	if err != nil {
		t.Fatal(err)
	}
	measured(t, "up after %s", time.Since(began).Round(100*time.Millisecond))
	_, rest, _ := strings.Cut(said, "KUBECONFIG=")
	kubeconfig, _, found := strings.Cut(rest, " ")
	if !found {
		t.Fatalf("it names no KUBECONFIG: %s", said)
	}
	env := []string{"KUBECONFIG=" + kubeconfig, "HOME=" + t.TempDir()}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := command(t.Context(), env, filepath.Join(options.KubernetesDir, "kubectl"), args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	kubectl("create", "deployment", "web", "--image", e2e.BusyboxImage, "--", "sleep", "infinity")
	kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	if out := kubectl("exec", "deployment/web", "--", "echo", "hello"); out != "hello" {
		t.Errorf("exec: %q", out)
	}
	ip := kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].status.podIP}")
	if _, err := contivLab(t.Context(), "--name", name, "exec", "node1", "--", "ping", "-c1", "-W2", ip); err != nil {
		t.Error(err)
	}
	if out, err := contivLab(t.Context(), "--name", name, "ctl", "pods"); err != nil || !strings.Contains(out, ip) {
		t.Errorf("contivctl pods: %v: %s", err, out)
	}
	if out, err := contivLab(t.Context(), "--name", name, "status"); err != nil || !strings.Contains(out, "kube-apiserver") {
		t.Errorf("status: %v: %s", err, out)
	}
	for _, args := range [][]string{{"pod", "add", "x"}, {"node", "kill", "node1"}, {"matrix"}, {"etcd", "stop"}} {
		if _, err := contivLab(t.Context(), append([]string{"--name", name}, args...)...); err == nil || !strings.Contains(err.Error(), "kubectl") {
			t.Errorf("%v: %v, want a hint at kubectl", args, err)
		}
	}
	if _, err := contivLab(t.Context(), "up", "--kubernetes", "--name", name, "--source", source); err == nil || !strings.Contains(err.Error(), "is already up") {
		t.Errorf("up again: %v", err)
	}
}
