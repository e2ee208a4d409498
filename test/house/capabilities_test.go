package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A place is code above the KVScheduler that depends on the kind of vswitch.
type place struct{ what, file string }

// Above the KVScheduler, code depends on the vswitch only in the places that docs/design/vpp.md lists with
// reasons. New places must be listed.
func TestPlacesThatDependOnTheVSwitch(t *testing.T) {
	found, listed := placesInCode(t), placesInDocs(t)
	if len(found) == 0 {
		t.Fatal("no place is found in the code")
	}
	for _, p := range sortedPlaces(found) {
		if !listed[p] {
			t.Errorf("%s asks for %s: describe the effect and the reason in docs/design/vpp.md, \"What depends on the vswitch\"", p.file, p.what)
		}
	}
	for _, p := range sortedPlaces(listed) {
		if !found[p] {
			t.Errorf("docs/design/vpp.md says that %s asks for %s, but it does not", p.file, p.what)
		}
	}
}

func sortedPlaces(places map[place]bool) []place {
	return slices.SortedFunc(maps.Keys(places), func(a, b place) int { return strings.Compare(a.what+a.file, b.what+b.file) })
}

var (
	tableRow = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]*) \\|")
	code     = regexp.MustCompile("`([^`]+)`")
)

// placesInDocs reads the section's tables: the capability, and the file.
func placesInDocs(t *testing.T) map[place]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "design", "vpp.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n## What depends on the vswitch\n")
	section, _, _ = strings.Cut(section, "\n## ")
	places := map[place]bool{}
	for line := range strings.Lines(section) {
		if row := tableRow.FindStringSubmatch(line); row != nil {
			for _, file := range code.FindAllStringSubmatch(row[2], -1) {
				places[place{row[1], file[1]}] = true
			}
		}
	}
	return places
}

// aboveTheScheduler lists the packages that must not depend on the vswitch.
var aboveTheScheduler = []string{"client", "cmd/contiv-agent", "internal/controller", "internal/ctl", "kvscheduler", "internal/vswitch/linux", "internal/vswitch/netalloc",
	"internal/agent/nodepath", "internal/agent/northbound", "internal/agent/southbound", "internal/agent/stnreport", "internal/agent/uninstall", "internal/agent/valuecheck", "internal/plugins"}

// placesInCode finds, in these packages without tests:
//
//   - capabilities that are read;
//   - vswitches whose type is asserted;
//   - comparisons with the values of --vswitch;
//   - in contivconf, whether the vswitch uses the host's links.
func placesInCode(t *testing.T) map[place]bool {
	t.Helper()
	capabilities, places := capabilityNames(t), map[place]bool{}
	for _, room := range aboveTheScheduler {
		forEachFile(t, room, func(path string, file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl: // hands them over to the plugins
					return path != "cmd/contiv-agent/vswitch.go" || n.Name.Name != "capabilitiesOf"
				case *ast.SelectorExpr:
					if capabilities[n.Sel.Name] {
						places[place{n.Sel.Name, path}] = true
					}
				case *ast.TypeAssertExpr:
					if (nameOf(n.X) == "vs" || calls(n.X, "VSwitch")) && n.Type != nil {
						places[place{typeName(n.Type), path}] = true
					}
				case *ast.BinaryExpr:
					switch {
					case nameOf(n.Y) == "VPPVSwitch" || nameOf(n.Y) == "KernelVSwitch":
						places[place{"--vswitch", path}] = true
					case strings.HasPrefix(path, "internal/plugins/contivconf/") && nameOf(n.X) == "links" && nameOf(n.Y) == "nil":
						places[place{"HostStackShared", path}] = true
					}
				}
				return true
			})
		})
	}
	return places
}

// capabilityNames returns the fields of vswitch.Capabilities. Plugins use the same names.
func capabilityNames(t *testing.T) map[string]bool {
	t.Helper()
	fields := func(room string) map[string]bool {
		names := map[string]bool{}
		forEachFile(t, room, func(_ string, file *ast.File) {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || spec.Name.Name != "Capabilities" {
					return true
				}
				if structure, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range structure.Fields.List {
						for _, name := range field.Names {
							names[name.Name] = true
						}
					}
				}
				return false
			})
		})
		return names
	}
	names := fields("internal/vswitch")
	for name := range fields("internal/plugins") {
		if !names[name] {
			t.Errorf("plugins ask for a capability %s, which is none of vswitch.Capabilities", name)
		}
	}
	return names
}

// nameOf returns the last part of a name; "" for other expressions.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// calls reports whether e is a call of a method with this name.
func calls(e ast.Expr, method string) bool {
	call, ok := e.(*ast.CallExpr)
	return ok && nameOf(call.Fun) == method
}

func typeName(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return nameOf(s.X) + "." + s.Sel.Name
	}
	if name := nameOf(e); name != "" {
		return name
	}
	return fmt.Sprintf("%T", e)
}

// forEachFile parses a package's files, without tests and test helpers.
func forEachFile(t *testing.T, room string, visit func(path string, file *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, path)
		switch {
		case err != nil || relErr != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "plugintest" || d.Name() == "vswitchtest" || d.Name() == "fake"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
