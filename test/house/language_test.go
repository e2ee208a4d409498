package house_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fingerprint matches words of a style that readers stumble over. It shows a habit, not bad prose: a
// comment that reads well without these words is the aim, not one with synonyms.
var fingerprint = regexp.MustCompile(`(?i)\b(?:` +
	`what(?:ever)?|those|tell|tells|told|telling|whoever|whose|whom|who|(?:that|those|these) of|` +
	`(?:has|have|had|having) (?:it|them|the [a-z]+|[a-z]+) (?:done|made|looked|be|sent|read|asked|wait|do|make|say|go)|` +
	`for ever|anew|lest|but for|beside|somebody|nobody|anybody|therefore|thereby|wherever|the like|as well|` +
	`there (?:is|are|was|were|may be|that (?:is|are))|(?:is|are|was|were) to (?:be|have|go|do|get)` +
	`)\b`)

var (
	word      = regexp.MustCompile(`[A-Za-z']+`)
	generated = regexp.MustCompile(`(\.pb\.go|\.ba\.go|_string\.go)$|^zz_generated`)
)

// Comments have few words of the fingerprint: ceilings per 1,000 words, of all and of each package.
func TestCommentsArePlain(t *testing.T) {
	const inAll, inPackage, fewWords = 4, 8, 200
	words, hits := map[string]int{}, map[string]int{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || generated.MatchString(d.Name()):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../")
		for _, text := range commentsOf(source) {
			for _, of := range []string{pkg, ""} {
				words[of] += len(word.FindAllString(text, -1))
				hits[of] += len(fingerprint.FindAllString(text, -1))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if words[""] == 0 {
		t.Fatal("no comment was found")
	}
	for pkg, n := range words {
		ceiling := inPackage
		if pkg == "" {
			ceiling = inAll
		} else if n <= fewWords {
			continue
		}
		if hits[pkg]*1000 > ceiling*n {
			t.Errorf("comments in %q: %d words of the fingerprint among %d, more than %d per 1,000: say them in plain English", pkg, hits[pkg], n, ceiling)
		}
	}
}

func commentsOf(source []byte) (list []string) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
	for {
		switch _, tok, text := s.Scan(); tok {
		case token.EOF:
			return list
		case token.COMMENT:
			if !strings.HasPrefix(text, "//go:") && !strings.HasPrefix(text, "//nolint") {
				list = append(list, text)
			}
		}
	}
}
