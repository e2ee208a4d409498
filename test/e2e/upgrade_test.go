package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

// oldVersions lists the commits for upgrade and downgrade.
var oldVersions = []struct {
	name, commit string
	// install installs the older version; back downgrades to it.
	install, back func(s *site, old string)
}{
	// The last version whose etcd needed no certificates, installed by kubectl only.
	{"plain text", "1ddc809f8759677cecb645182f0db08e3daf748c", installManifests, backToManifests},
	// The last version whose etcd ran as root, and whose agents had no client roles.
	{"etcd as root", "64e284d92c1dee114005fcc74b0db6dcc078a816",
		func(s *site, old string) {
			s.run(filepath.Join(old, "bin/contivctl"), "install", "--post-renderer", s.adapter)
		},
		func(s *site, old string) {
			s.giveEtcdToRoot()
			s.run(filepath.Join(old, "bin/contivctl"), "upgrade", "--image", e2e.ContivImage, "--post-renderer", s.adapter)
		}},
	// The last version with a second protocol between contiv-cni and the agent.
	{"two protocols", "ffed99ed3f7ecc8f32ffebab41cbe5828b1df206",
		func(s *site, old string) {
			s.run(filepath.Join(old, "bin/contivctl"), "install", "--post-renderer", s.adapter)
		},
		func(s *site, old string) {
			s.run(filepath.Join(old, "bin/contivctl"), "upgrade", "--image", e2e.ContivImage, "--post-renderer", s.adapter)
		}},
}

// oldManifests returns the manifests of the older version in the directory.
func (s *site) oldManifests(old string) (adapted []string) {
	s.t.Helper()
	for _, file := range []string{"contiv-ksr-rbac.yaml", "contiv.yaml"} {
		data, err := os.ReadFile(filepath.Join(old, "deploy", file))
		if err != nil {
			s.t.Fatal(err)
		}
		if data, err = s.Adapt(data); err != nil {
			s.t.Fatal(err)
		}
		adapted = append(adapted, string(data))
	}
	return adapted
}

func installManifests(s *site, old string) {
	for _, manifest := range s.oldManifests(old) {
		s.apply(manifest)
	}
	s.rolledOut()
	s.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=1m")
}

// docs/operator/install.md: state unknown to the older version must be removed, from etcd too.
func backToManifests(s *site, old string) {
	s.kubectl("exec", "-n", "kube-system", "daemonset/contiv-ksr", "--", "contiv-ksr", "forget-users", "--etcd-config=/etc/contiv/etcd.conf")
	s.giveEtcdToRoot()
	for _, manifest := range s.oldManifests(old) {
		if _, err := s.KubectlInput(s.t.Context(), strings.NewReader(manifest), "replace", "-f", "-"); err != nil {
			s.t.Fatal(err)
		}
	}
	s.rolledOut()
}

// docs/operator/etcd.md: an older etcd is root, without the capability to write another user's files.
func (s *site) giveEtcdToRoot() {
	s.t.Helper()
	data := filepath.Join(s.Dir(), "nodes", e2e.ControlPlaneNode, "var/etcd/contiv-data")
	if out, err := exec.Command("chown", "-R", "0:0", data).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
}

// rolledOut returns when all Contiv pods run the last applied version.
func (s *site) rolledOut() {
	s.t.Helper()
	for _, workload := range []string{"statefulset/contiv-etcd", "daemonset/contiv-ksr", "daemonset/contiv-agent"} {
		s.kubectl("rollout", "status", "-n", "kube-system", workload, "--timeout=3m")
	}
}

// buildOld builds an older version's programs in bin of the returned directory, from the
// repository's history. Programs that it lacks come from this version and are unused.
// The package of the version moved in 2026-11, and the linker ignores a variable that does not exist.
func buildOld(t *testing.T, commit string) (dir string) {
	t.Helper()
	if err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		if out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output(); err == nil && strings.TrimSpace(string(out)) == "true" {
			t.Skipf("this clone is shallow and lacks the commit %s, of which the older version is built: git fetch --unshallow", commit)
		}
		t.Fatalf("the repository lacks the commit %s, of which the older version is built: name another one", commit)
	}
	dir = t.TempDir()
	script := `git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2" && cd "$2" && mkdir bin &&
		find "$3" -maxdepth 1 -type f -exec cp -t bin {} + &&
		CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/contiv/contiv/version.Version=$1 -X github.com/contiv/contiv/internal/lib/version.Version=$1" -o bin/ ./cmd/...`
	if out, err := exec.CommandContext(t.Context(), "bash", "-ec", script, "bash", commit, dir, options.BinDir).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", commit, err, out)
	}
	return dir
}

// During upgrades from older versions and back, no packet between running pods is lost, no pod
// restarts, nodes keep their IDs, and pods can be added after each step.
func TestUpgradeFromAnOlderVersionAndBack(t *testing.T) {
	needCluster(t)
	for i, v := range oldVersions {
		t.Run(v.name, func(t *testing.T) {
			began := time.Now()
			old := buildOld(t, v.commit)
			measured(t, "the older version is built after %s", time.Since(began).Round(time.Second))
			opts := options
			newBin := opts.BinDir
			opts.BinDir, opts.ContivArchive, opts.VPPArchive, opts.WithoutProxy = filepath.Join(old, "bin"), "", "", false
			s := newSiteWith(t, string(rune('u'+i)), opts)
			if err := s.AddImage(t.Context(), newImage, newBin); err != nil {
				t.Fatal(err)
			}
			s.kubectl("label", "node", e2e.ControlPlaneNode, "node-role.kubernetes.io/control-plane=")
			v.install(s, old)
			s.checkUpgrade(filepath.Join(newBin, "contivctl"), func() { v.back(s, old) })
		})
	}
}

const newImage = "docker.io/contiv/contiv:new"

// checkUpgrade upgrades with a contivctl and downgrades.
func (s *site) checkUpgrade(contivctl string, back func()) {
	t := s.t
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
	ready := func(image string) {
		t.Helper()
		for _, node := range s.Nodes() {
			await.That(t, node.Name+" is ready with "+image, func() error {
				response, err := e2e.HTTPClient(node.Netns).Get("http://127.0.0.1:9999/readiness")
				if err != nil {
					return err
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if err == nil && response.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s", text)
				}
				return err
			})
		}
		images := strings.Fields(s.kubectl("get", "pods", "-n", "kube-system", "-l", "app in (contiv-agent, contiv-ksr, contiv-etcd)", "-o", "jsonpath={.items[*].spec.containers[*].image}"))
		if slices.ContainsFunc(images, func(i string) bool { return i != image }) || len(images) < 4 {
			t.Errorf("images of Contiv's pods are %v, not %s", images, image)
		}
	}
	ready(e2e.ContivImage)
	step("the upgrade", func() {
		s.run(contivctl, "upgrade", "--image", newImage, "--post-renderer", s.adapter)
		ready(newImage)
	})
	step("the way back", func() {
		back()
		ready(e2e.ContivImage)
	})
}

// podOn starts a pod on a node and returns it as a source and target of packets.
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
