package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

// oldVersion is the commit that clusters are upgraded from and go back to: the last one whose etcd
// ran as root, and whose agents knew no roles of clients.
const oldVersion = "64e284d92c1dee114005fcc74b0db6dcc078a816"

// buildOld makes the programs of oldVersion, with the repository's history only. What it did not have yet is of this version, and
// not used.
func buildOld(t *testing.T) (bin string) {
	t.Helper()
	if err := exec.Command("git", "cat-file", "-e", oldVersion+"^{commit}").Run(); err != nil {
		if out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output(); err == nil && strings.TrimSpace(string(out)) == "true" {
			t.Skipf("this clone is shallow and lacks the commit %s, of which the older version is built: git fetch --unshallow", oldVersion)
		}
		t.Fatalf("the repository lacks the commit %s, of which the older version is built: name another one", oldVersion)
	}
	dir := t.TempDir()
	bin = filepath.Join(dir, "bin")
	script := `git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2" && cd "$2" && mkdir bin &&
		find "$3" -maxdepth 1 -type f -exec cp -t bin {} + &&
		CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/contiv/contiv/version.Version=$1" -o bin/ ./cmd/...`
	if out, err := exec.CommandContext(t.Context(), "bash", "-ec", script, "bash", oldVersion, dir, options.BinDir).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", oldVersion, err, out)
	}
	return bin
}

// From an older version to this one, and back: no packet between running pods is lost, none of them is restarted,
// nodes keep their IDs, and pods can be added after each step.
func TestUpgradeFromAnOlderVersionAndBack(t *testing.T) {
	needCluster(t)
	began := time.Now()
	old := buildOld(t)
	measured(t, "the older version is built after %s", time.Since(began).Round(time.Second))
	opts := options
	newBin := opts.BinDir
	opts.BinDir, opts.ContivArchive, opts.WithoutProxy = old, "", false
	s := newSiteWith(t, "u", opts)
	const newImage = "docker.io/contiv/contiv:new"
	if err := s.AddImage(t.Context(), newImage, newBin); err != nil {
		t.Fatal(err)
	}
	s.kubectl("label", "node", e2e.ControlPlaneNode, "node-role.kubernetes.io/control-plane=")
	s.run(filepath.Join(old, "contivctl"), "install", "--post-renderer", s.adapter)

	first, second := s.podOn("first", "node1"), s.podOn("second", "node2")
	ids := nodeIDsOf(t, s.Cluster)
	step := func(what string, change func()) {
		t.Helper()
		streams := []*lab.Stream{s.stream(first, second), s.stream(second, first)}
		change()
		later := s.podOn("after-"+strings.ReplaceAll(what, " ", "-"), "node2")
		s.reaches(first, later)
		for _, stream := range streams {
			report := stream.Stop()
			measured(t, "%s, %s: %s", what, stream.Path, report)
			if report.Lost > 0 || report.Sent < 1000 {
				t.Errorf("%s, %s: %s", what, stream.Path, report)
			}
		}
		for _, pod := range []string{"first", "second"} {
			var now corev1.Pod
			if err := s.Get(t.Context(), &now, "pod", pod); err != nil {
				t.Fatal(err)
			}
			if n := now.Status.ContainerStatuses[0].RestartCount; n > 0 {
				t.Errorf("%s: pod %s was restarted %d times", what, pod, n)
			}
		}
		for name, id := range nodeIDsOf(t, s.Cluster) {
			if ids[name] != id {
				t.Errorf("%s: ID of %s is %d, was %d", what, name, id, ids[name])
			}
		}
	}
	version := func(want bool) {
		t.Helper()
		for _, node := range s.Nodes() {
			await.That(t, node.Name+" runs the right version", func() error {
				response, err := e2e.HTTPClient(node.Netns).Get("http://127.0.0.1:9999/readiness")
				if err != nil {
					return err
				}
				defer response.Body.Close()
				text := make([]byte, 4096)
				n, _ := response.Body.Read(text)
				if isOld := strings.Contains(string(text[:n]), `"`+oldVersion+`"`); isOld != want || response.StatusCode != 200 {
					return fmt.Errorf("%s", text[:n])
				}
				return nil
			})
		}
	}
	version(true)
	step("the upgrade", func() {
		s.run(filepath.Join(newBin, "contivctl"), "upgrade", "--image", newImage, "--post-renderer", s.adapter)
		version(false)
	})
	step("the way back", func() {
		// docs/etcd.md: an older etcd is root, without a capability to write what is another user's.
		data := filepath.Join(s.Dir(), "nodes", e2e.ControlPlaneNode, "var/etcd/contiv-data")
		if out, err := exec.Command("chown", "-R", "0:0", data).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.run(filepath.Join(old, "contivctl"), "upgrade", "--image", e2e.ContivImage, "--post-renderer", s.adapter)
		version(true)
	})
}

// podOn starts a pod on a node and returns it as a place to send packets from and to.
func (s *site) podOn(name, node string) lab.Endpoint {
	s.t.Helper()
	s.kubectl("run", name, "--image", e2e.BusyboxImage, "--restart=Never", "--overrides", `{"spec":{"nodeName":"`+node+`"}}`, "--", "sleep", "infinity")
	s.kubectl("wait", "pod", name, "--for=condition=Ready", "--timeout=2m")
	e, err := s.Endpoint(s.t.Context(), node, "default", name)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *site) stream(from, to lab.Endpoint) *lab.Stream {
	s.t.Helper()
	stream, err := lab.StartStream(from, to, 2*time.Millisecond)
	if err != nil {
		s.t.Fatal(err)
	}
	return stream
}

func (s *site) reaches(from, to lab.Endpoint) {
	s.t.Helper()
	await.That(s.t, from.Name+" reaches "+to.Name, func() error {
		out, err := s.Kubectl(s.t.Context(), "exec", strings.TrimPrefix(from.Name, "default/"), "--", "ping", "-c1", "-W2", to.Address.String())
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}
