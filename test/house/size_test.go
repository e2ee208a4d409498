package house

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// maxFiles is the maximum number of non-test files in a package.
const maxFiles = 40

// A package has one subject. A package above this size has several.
func TestPackageSize(t *testing.T) {
	root := filepath.Join("..", "..")
	files := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".pb.go") {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			files[filepath.ToSlash(dir)]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, n := range files {
		if n > maxFiles {
			t.Errorf("%s has %d files: split it by subject (docs/design/adr/006), a package has at most %d", dir, n, maxFiles)
		}
	}
}
