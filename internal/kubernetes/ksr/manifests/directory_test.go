package manifests

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/test/locked"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const never = time.Hour

type watched struct {
	t       *testing.T
	dir     string
	source  *Directory
	reports chan ksr.Changes
	log     *locked.Buffer

	objects  map[ksr.Ref]ksr.Object
	complete bool
}

func watch(t *testing.T, rescan time.Duration, files map[string]string) *watched {
	t.Helper()
	w := &watched{t: t, dir: t.TempDir(), reports: make(chan ksr.Changes, 100), log: &locked.Buffer{}, objects: make(map[ksr.Ref]ksr.Object)}
	for name, text := range files {
		w.write(name, text)
	}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	source, err := New(Options{Dir: w.dir, Settle: 5 * time.Millisecond, Rescan: rescan, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	w.source = source
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- source.Run(ctx, func(c ksr.Changes) { w.reports <- c }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *watched) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watched) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) rename(from, to string) {
	w.t.Helper()
	if err := os.Rename(from, to); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) await(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	deadline := time.After(time.Minute)
	for first := true; ; first = false {
		if got := w.names(); slices.Equal(got, want) && (w.complete || !first) {
			return
		}
		select {
		case c := <-w.reports:
			w.apply(c)
		case <-deadline:
			w.t.Fatalf("objects are %q, want %q\nlog:\n%s", w.names(), want, w.log)
		}
	}
}

func (w *watched) apply(c ksr.Changes) {
	for _, o := range c.Set {
		ref, _ := ksr.RefOf(o)
		w.objects[ref] = o
	}
	for _, ref := range c.Deleted {
		delete(w.objects, ref)
	}
	w.complete = c.Complete
}

func (w *watched) names() (out []string) {
	for ref, o := range w.objects {
		name := ref.String()
		if v := o.GetLabels()["v"]; v != "" {
			name += "@" + v
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (w *watched) awaitProblem(text string) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if strings.Contains(strings.Join(texts(w.source.Problems()), "\n"), text) {
			return
		}
	}
	w.t.Fatalf("problems are %q, want one with %q", texts(w.source.Problems()), text)
}

func pod(name, version string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  labels: {v: %q}\n", name, version)
}

func TestFilesAndDocumentsComeChangeAndGo(t *testing.T) {
	w := watch(t, never, map[string]string{"a.yaml": pod("a", "1"), "notes.txt": "hello"})
	w.await("pod default/a@1")

	w.write("b.yaml", pod("b", "1")+"---\n"+pod("c", "1"))
	w.await("pod default/a@1", "pod default/b@1", "pod default/c@1")

	w.write("b.yaml", pod("c", "2")+"---\n"+pod("d", "1"))
	w.await("pod default/a@1", "pod default/c@2", "pod default/d@1")

	if err := os.Remove(w.path("b.yaml")); err != nil {
		t.Fatal(err)
	}
	w.await("pod default/a@1")
}

func TestFileWithAMistakeKeepsItsObjects(t *testing.T) {
	w := watch(t, never, map[string]string{"a.yaml": pod("a", "1") + "---\n" + pod("b", "1")})
	w.await("pod default/a@1", "pod default/b@1")

	w.write("a.yaml", pod("a", "2")+"---\nkind: [\n")
	w.awaitProblem("a.yaml: document 2: invalid YAML: line 7:")
	if !strings.Contains(w.log.String(), "its previous content stays in force") {
		t.Errorf("log does not show the merge:\n%s", w.log)
	}
	w.write("z.yaml", pod("z", "1"))
	w.await("pod default/a@1", "pod default/b@1", "pod default/z@1")

	w.write("a.yaml", pod("a", "3"))
	w.await("pod default/a@3", "pod default/z@1")
	if p := w.source.Problems(); len(p) > 0 {
		t.Errorf("problems remain: %v", p)
	}
}

func TestSourceIsIncompleteWhileAFileWasNeverUnderstood(t *testing.T) {
	w := watch(t, never, map[string]string{"a.yaml": pod("a", "1"), "b.yaml": "kind: [", "c.yaml": ""})
	first := <-w.reports
	w.apply(first)
	if first.Complete {
		t.Error("complete in spite of two files that could mean anything")
	}
	w.write("b.yaml", pod("b", "1"))
	if err := os.Remove(w.path("c.yaml")); err != nil {
		t.Fatal(err)
	}
	w.await("pod default/a@1", "pod default/b@1")
	for !w.complete {
		w.apply(<-w.reports)
	}
}

func TestTruncatedFileIsWaitedFor(t *testing.T) {
	w := watch(t, never, map[string]string{"a.yaml": pod("a", "1")})
	w.await("pod default/a@1")
	w.write("a.yaml", "")
	w.awaitProblem("a.yaml: is empty")
	w.write("a.yaml", pod("a", "2"))
	w.await("pod default/a@2")
}

func TestEditorsMayReplaceFiles(t *testing.T) {
	w := watch(t, never, map[string]string{"a.yaml": pod("a", "1")})
	w.await("pod default/a@1")

	for _, temporary := range []string{".a.yaml.swp", "a.yaml~", "4913", "#a.yaml#", "a.yaml.tmp"} {
		w.write(temporary, pod("a", temporary))
		w.rename(w.path(temporary), w.path("a.yaml"))
		w.await("pod default/a@" + temporary)
	}
	w.rename(w.path("a.yaml"), w.path("a.yaml~"))
	w.write("a.yaml", pod("a", "9"))
	w.await("pod default/a@9")
	w.write(".b.yaml", pod("b", "1"))
	w.write("c.yaml", pod("c", "1"))
	w.await("pod default/a@9", "pod default/c@1")
}

func TestMountedConfigMapIsSwappedAtOnce(t *testing.T) {
	w := watch(t, never, nil)
	version := func(n string, files ...string) {
		if err := os.Mkdir(w.path("..v"+n), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			w.write("..v"+n+"/"+f, pod(strings.TrimSuffix(f, ".yaml"), n))
		}
		if err := os.Symlink("..v"+n, w.path("..new")); err != nil {
			t.Fatal(err)
		}
		w.rename(w.path("..new"), w.path("..data"))
	}
	version("1", "a.yaml")
	if err := os.Symlink("..data/a.yaml", w.path("a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.await("pod default/a@1")
	version("2", "a.yaml")
	w.await("pod default/a@2")
}

func TestRescanFindsWhatIsNotNotified(t *testing.T) {
	w := watch(t, 10*time.Millisecond, nil)
	elsewhere := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(elsewhere, []byte(pod("a", "1")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, w.path("a.yaml")); err != nil {
		t.Fatal(err)
	}
	w.await("pod default/a@1")
	if err := os.WriteFile(elsewhere, []byte(pod("a", "22")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.await("pod default/a@22")
}

func TestObjectsOutliveADirectoryThatIsReplaced(t *testing.T) {
	w := watch(t, 10*time.Millisecond, map[string]string{"a.yaml": pod("a", "1")})
	w.await("pod default/a@1")
	w.rename(w.dir, w.dir+".away")
	t.Cleanup(func() { os.RemoveAll(w.dir + ".away") })
	w.awaitProblem("no such file or directory")

	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("a.yaml", pod("a", "2")+"---\n"+pod("b", "2"))
	w.await("pod default/a@2", "pod default/b@2")
}

func TestLastOfTwoDefinitionsCounts(t *testing.T) {
	w := watch(t, never, map[string]string{"1.yaml": pod("a", "1"), "2.yaml": pod("b", "2") + "---\n" + pod("a", "2")})
	w.await("pod default/a@2", "pod default/b@2")
	w.awaitProblem("1.yaml: document 1: pod default/a is overridden by document 2 of 2.yaml")

	if err := os.Remove(w.path("2.yaml")); err != nil {
		t.Fatal(err)
	}
	w.await("pod default/a@1")
}

func TestIgnoredKindsAreNamedOnce(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
	w := watch(t, never, map[string]string{"a.yaml": deployment + "---\n" + deployment, "b.yaml": deployment + "---\n" + pod("b", "1")})
	w.await("pod default/b@1")
	if n := strings.Count(w.log.String(), "apps/v1 Deployment"); n != 1 {
		t.Errorf("named %d times:\n%s", n, w.log)
	}
}

func TestTouchingAFileReportsNothing(t *testing.T) {
	w := watch(t, never, map[string]string{"a.yaml": pod("a", "1")})
	w.await("pod default/a@1")
	w.write("a.yaml", pod("a", "1"))
	w.write("b.yaml", pod("b", "1"))
	c := <-w.reports
	w.apply(c)
	w.await("pod default/a@1", "pod default/b@1")
	for _, o := range c.Set {
		if o.(*corev1.Pod).Name == "a" {
			t.Error("the object of the touched file was reported")
		}
	}
}

func TestNewSaysWhatToChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"":                "no directory is given",
		"/does/not/exist": "does not exist: create it",
		file:              "is a file: name the directory",
	} {
		if _, err := New(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", dir, err, want)
		}
	}
}
