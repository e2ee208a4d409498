package house_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest    = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]+)")
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
)

// SECURITY.md names the test of each promise.
func TestPromisesHaveTests(t *testing.T) {
	root := filepath.Join("..", "..")
	data, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{"TestX": true} // SECURITY.md's placeholder
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, match := range testFunction.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllStringSubmatch(string(data), -1)
	if len(named) == 0 {
		t.Fatal("SECURITY.md names no test")
	}
	for _, match := range named {
		if !tests[match[1]] {
			t.Errorf("SECURITY.md names %s, which no package has", match[1])
		}
	}
}
