package docs

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var update = flag.Bool("update", false, "rewrite the samples of pages with a changed shape")

// binaries is the directory of the built programs.
var binaries string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		m.Run() // TestPages skips itself with the reason
		return
	}
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		return m.Run(), nil
	})
}

// alone lists pages with their own lab; false: they create it themselves. All other pages share
// one.
var alone = map[string]bool{
	"README.md": false, "docs/user/get-started.md": false, "docs/user/lab.md": false, "docs/operator/calico.md": false,
	"docs/user/contivctl.md": true, "docs/user/connectivity.md": true, "docs/user/inspect.md": true, "docs/user/history.md": true,
}

// pages of the documentation, parsed.
func pages(t *testing.T) (list []*page) {
	t.Helper()
	files := []string{filepath.Join(labtest.Root, "README.md")}
	err := filepath.WalkDir(filepath.Join(labtest.Root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(labtest.Root, file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parse(filepath.ToSlash(name), string(text)))
	}
	return list
}

// Each command on each page has the documented output.
func TestPages(t *testing.T) {
	if binaries == "" {
		t.Skip("the labs make network namespaces; run the tests as root")
	}
	var shared []*page
	for _, p := range pages(t) {
		runs := slices.ContainsFunc(p.steps, func(s step) bool { why, _ := excuse(p.name, s.command); return why == "" })
		running, special := alone[p.name]
		switch {
		case special:
			t.Run(p.name, func(t *testing.T) { p.check(t, newLab(t, running)) })
		case runs:
			shared = append(shared, p)
		}
	}
	t.Run("shared", func(t *testing.T) {
		s := newLab(t, true)
		for _, p := range shared {
			t.Run(p.name, func(t *testing.T) { p.check(t, s) })
		}
	})
}

// newLab returns a shell with a new lab; up: the lab already runs.
func newLab(t *testing.T, up bool) *shell {
	t.Helper()
	opts := lab.Options{Name: fmt.Sprintf("docs%d", os.Getpid()), BinDir: binaries, ServiceConfig: "services: vswitch\n", ContivConfig: "crdNodeConfigurationDisabled: false\n"}
	if up {
		labtest.Up(t, opts)
	} else {
		guard, err := lab.NewGuard(filepath.Join(binaries, "contiv-lab"), opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(labtest.Down(opts), guard.Release()); err != nil {
				t.Error(err)
			}
		})
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	s, err := newShell(dir, binaries, opts.Name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *page) check(t *testing.T, sh *shell) {
	outputs := map[int]string{}
	differs := false
	sh.exports = nil
	shown := lets{}
	for i, s := range p.steps {
		if why, _ := excuse(p.name, s.command); why != "" && !s.hidden {
			continue
		}
		sample := p.sample(s)
		if file, is := strings.CutPrefix(s.command, "cat "); is { // the page shows the file's content
			if err := os.WriteFile(filepath.Join(sh.dir, file), []byte(sample+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		output, err := sh.settle(t.Context(), shown.there(s.command), sample)
		output = shown.back(output)
		switch {
		case s.let != "":
			shown[s.let] = strings.TrimSpace(output)
		case err != nil && (sample == "" || sh.broken(err)):
			t.Errorf("%s:%d: %s: %v\n%s", p.name, s.line+1, s.command, err, output)
		case sample != "":
			outputs[i] = output
			if !sameShape(sample, output) {
				differs = true
				t.Errorf("%s:%d: %s prints\n%s\nand the page shows\n%s\nwords: %v\nand: %v", p.name, s.line+1, s.command, output, sample, words(output), words(sample))
			}
		}
	}
	if differs && *update {
		p.rewrite(t, outputs)
	}
}

// lets maps words of a page to words in the lab.
type lets map[string]string

var (
	word      = regexp.MustCompile(`[^\s:]+`)
	reference = regexp.MustCompile(`#[\d.]+\b`)
)

// there translates a command of the page for the lab.
func (l lets) there(command string) string {
	return word.ReplaceAllStringFunc(command, func(w string) string { return cmp.Or(l[w], w) })
}

// back translates an output to the numbers of the page.
func (l lets) back(output string) string {
	return reference.ReplaceAllStringFunc(output, func(n string) string {
		for shown, is := range l {
			if n == "#"+is {
				return "#" + shown
			}
		}
		return n
	})
}

// broken reports whether a command failed before it printed anything.
func (*shell) broken(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// changes matches commands that are not repeated, because the second run differs.
var changes = regexp.MustCompile(`\s(apply|delete|resync|put|del|txn|report|up|down|add)(\s|$)`)

// settleTimeout bounds the wait for a sample, because a change may take effect later.
const settleTimeout = 30 * time.Second

// settle runs a command until its output matches the sample.
func (s *shell) settle(ctx context.Context, command, sample string) (output string, err error) {
	for end := time.Now().Add(settleTimeout); ; {
		output, err = s.run(ctx, command)
		if sample == "" || sameShape(sample, output) || changes.MatchString(command) || time.Now().After(end) {
			return output, err
		}
	}
}

// rewrite writes the outputs of one run into the page as samples. Elisions are kept where the shape
// is the same.
func (p *page) rewrite(t *testing.T, outputs map[int]string) {
	t.Helper()
	for i, output := range outputs {
		sample := p.sample(p.steps[i])
		if sameShape(sample, output) && strings.Contains(sample, elision) {
			delete(outputs, i)
		}
	}
	file := filepath.Join(labtest.Root, filepath.FromSlash(p.name))
	if err := os.WriteFile(file, []byte(p.with(outputs)), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s has new samples: check them, and elide (%s) texts that differ between runs", p.name, elision)
}

// Each excuse concerns a command on a page.
func TestExcusesAreNeeded(t *testing.T) {
	used := map[int]bool{}
	for _, p := range pages(t) {
		for _, s := range p.steps {
			if _, i := excuse(p.name, s.command); i >= 0 && !s.hidden {
				used[i] = true
			}
		}
	}
	for i, e := range excused {
		if !used[i] {
			t.Errorf("no page has a command %q (%s): drop the excuse", e.command, e.page)
		}
	}
}

// Pages name existing Makefile targets.
func TestTargetsOfMake(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(labtest.Root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	target := regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	var known []string
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		known = append(known, m[1])
	}
	for _, p := range pages(t) {
		for _, s := range p.steps {
			words := strings.Fields(s.command)
			for i, w := range words {
				if w != "make" {
					continue
				}
				for _, name := range words[i+1:] {
					if strings.HasPrefix(name, "#") {
						break
					}
					if !strings.ContainsAny(name, "='") && !slices.Contains(known, name) {
						t.Errorf("%s:%d: %s: the Makefile has no target %s", p.name, s.line+1, s.command, name)
					}
				}
			}
		}
	}
}
