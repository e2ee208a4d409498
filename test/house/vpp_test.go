package house

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// vppFoundations lists the base packages under internal/vswitch/vpp, with their allowed imports of each
// other.
var vppFoundations = map[string][]string{
	"vppapi":    {},
	"session":   {"vppapi"},
	"convert":   {},
	"ownership": {"vppapi", "session"},
	"subsystem": {"session", "ownership"},
	"fibpath":   {"convert", "ownership"},
	"hostdev":   {"session"},
	"startup":   {},
	"vpptest":   {"vppapi", "startup"},
}

// Subsystems of the VPP driver do not import each other. They declare interfaces, which internal/vswitch/vpp
// implements.
func TestVPPSubsystemsStandAlone(t *testing.T) {
	const driver = "internal/vswitch/vpp/"
	dirs, err := os.ReadDir(filepath.Join("..", "..", driver))
	if err != nil {
		t.Fatal(err)
	}
	subsystems := slices.Sorted(func(yield func(string) bool) {
		for name := range vppFoundations {
			if name != "vpptest" && name != "startup" && !yield(name) {
				return
			}
		}
	})
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		allowed, foundation := vppFoundations[d.Name()]
		if !foundation {
			allowed = subsystems
		}
		files, err := filepath.Glob(filepath.Join("..", "..", driver, d.Name(), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, imp := range file.Imports {
				name, _ := strconv.Unquote(imp.Path.Value)
				target, ours := strings.CutPrefix(name, module+driver)
				if ours && !slices.Contains(allowed, target) {
					t.Errorf("%s imports %s: take a narrow interface, and let internal/vswitch/vpp connect the two", path, target)
				}
			}
		}
	}
}
