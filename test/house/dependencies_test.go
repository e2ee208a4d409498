package house

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const dependenciesPage = "../../docs/design/dependencies.md"

// rowOfModule matches a row with a module and a reason of at least two letters as its last cell.
var rowOfModule = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(?: `([^`]+)` \\|)? *[^|]*[a-zA-Z]{2}[^|]* \\|$")

// modFile is what the test reads of go mod edit -json.
type modFile struct {
	Require []struct {
		Path     string
		Indirect bool
	}
	Tool []struct{ Path string }
}

// Each direct dependency of each module has a row with a reason in docs/design/dependencies.md.
func TestDependenciesHaveReasons(t *testing.T) {
	page, err := os.ReadFile(dependenciesPage)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range rowOfModule.FindAllStringSubmatch(string(page), -1) {
		listed[strings.TrimSpace(row[2]+" "+row[1])] = true
	}
	required := map[string]bool{}
	for _, dir := range moduleDirs(t) {
		for _, path := range directDependencies(t, dir) {
			required[strings.TrimSpace(pageName(dir)+" "+path)] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(required)) {
		if !listed[d] {
			t.Errorf("docs/design/dependencies.md has no row with a reason for %s", d)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(listed)) {
		if !required[d] {
			t.Errorf("docs/design/dependencies.md lists %s, which no go.mod requires directly", d)
		}
	}
}

// moduleDirs returns the directories of all Go modules, relative to the repository.
func moduleDirs(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "-co", "--exclude-standard", "--", "go.mod", "*/go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, file := range strings.Fields(string(out)) {
		if _, err := os.Stat(filepath.Join("../..", file)); err == nil {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	if len(dirs) < 2 {
		t.Fatalf("modules in %q, want several", dirs)
	}
	return dirs
}

// pageName returns the name of a module's directory on the page: nothing for the main module, and
// one name for the versions of Kubernetes.
func pageName(dir string) string {
	if dir == "." {
		return ""
	}
	if parent, version := filepath.Split(dir); strings.HasPrefix(version, "1.") {
		return filepath.Clean(parent)
	}
	return dir
}

// directDependencies returns the modules that a go.mod requires directly, and those of its tools.
func directDependencies(t *testing.T, dir string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join("../..", dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	var mod modFile
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&mod); err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for _, r := range mod.Require {
		if !r.Indirect {
			direct[r.Path] = true
		}
	}
	for _, tool := range mod.Tool {
		best := ""
		for _, r := range mod.Require {
			if (tool.Path == r.Path || strings.HasPrefix(tool.Path, r.Path+"/")) && len(r.Path) > len(best) {
				best = r.Path
			}
		}
		direct[best] = true
	}
	return slices.Sorted(maps.Keys(direct))
}
