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
// sentence that reads well without these words is the aim, not one with synonyms.
var fingerprint = regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
	"what(?:ever)?", "those", "tell", "tells", "told", "telling", "whoever", "whose", "whom", "who", "(?:that|these)\\s+of",
	`(?:has|have|had|having)\s+(?:it|them|the\s+[a-z]+|[a-z]+)\s+(?:done|made|looked|be|sent|read|asked|wait|do|make|say|go)`,
	`for\s+ever`, "anew", "lest", `but\s+for`, "beside", "somebody", "nobody", "anybody", "therefore", "thereby", "wherever", `the\s+like`, `as\s+well`,
	`there\s+(?:is|are|was|were|may\s+be|that\s+(?:is|are))`, `(?:is|are|was|were)\s+to\s+(?:be|have|go|do|get)`,
}, "|") + `)\b`)

var (
	word      = regexp.MustCompile(`[A-Za-z']+`)
	generated = regexp.MustCompile(`(\.pb\.go|\.ba\.go|_string\.go)$|^zz_generated`)
)

// Comments have few words of the fingerprint: ceilings per 1,000 words, of all and of each package.
func TestCommentsArePlain(t *testing.T) {
	checkPlain(t, "comments", 4, 8, commentsOf)
}

// Help texts, errors, log messages and the messages of tests likewise. Texts of fewer than three
// words are names.
func TestStringsArePlain(t *testing.T) {
	checkPlain(t, "strings", 3, 6, func(source []byte) (list []string) {
		scan(source, func(tok token.Token, text string) {
			if tok == token.STRING && strings.Count(text, " ") >= 2 {
				list = append(list, text)
			}
		})
		return list
	})
}

// checkPlain compares the texts of all files with ceilings per 1,000 words.
func checkPlain(t *testing.T, what string, inAll, inPackage int, textsOf func(source []byte) []string) {
	t.Helper()
	const fewWords = 200
	words, hits := map[string]int{}, map[string]int{}
	eachSource(t, func(path string, source []byte) {
		for _, text := range textsOf(source) {
			for _, of := range []string{filepath.ToSlash(filepath.Dir(path)), ""} {
				words[of] += len(word.FindAllString(text, -1))
				hits[of] += len(fingerprint.FindAllString(text, -1))
			}
		}
	})
	if words[""] == 0 {
		t.Fatalf("no %s were found", what)
	}
	for pkg, n := range words {
		ceiling := inPackage
		if pkg == "" {
			ceiling = inAll
		} else if n <= fewWords {
			continue
		}
		if hits[pkg]*1000 > ceiling*n {
			t.Errorf("%s in %q: %d words of the fingerprint among %d, more than %d per 1,000: say them in plain English", what, pkg, hits[pkg], n, ceiling)
		}
	}
}

// sourceFile matches the name of a source file or page in a comment. Parts of
// URLs and patterns do not match.
var sourceFile = regexp.MustCompile(`(^|[\s("'` + "`" + `])((?:[\w.-]+/)*[\w.-]+\.(?:go|md|sh|py|proto|txtar|golden))\b`)

// Comments name files by a path from the root of the repository or from their own directory.
func TestFilesInCommentsExist(t *testing.T) {
	root, found := filepath.Join("..", ".."), 0
	eachSource(t, func(path string, source []byte) {
		for _, comment := range commentsOf(source) {
			for _, match := range sourceFile.FindAllStringSubmatch(comment, -1) {
				name := match[2]
				found++
				_, fromRoot := os.Stat(filepath.Join(root, name))
				_, fromHere := os.Stat(filepath.Join(root, filepath.Dir(path), name))
				if fromRoot != nil && fromHere != nil {
					t.Errorf("%s: a comment names the file %s, which does not exist", path, name)
				}
			}
		}
	})
	if found == 0 {
		t.Fatal("no comment names a file")
	}
}

// eachSource calls do with each Go file that is not generated and its path from the root.
func eachSource(t *testing.T, do func(path string, source []byte)) {
	t.Helper()
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
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		do(rel, source)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func commentsOf(source []byte) (list []string) {
	scan(source, func(tok token.Token, text string) {
		if tok == token.COMMENT && !strings.HasPrefix(text, "//go:") && !strings.HasPrefix(text, "//nolint") {
			list = append(list, text)
		}
	})
	return list
}

// scan calls do with each token of a file.
func scan(source []byte, do func(tok token.Token, text string)) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, scanner.ScanComments)
	for {
		_, tok, text := s.Scan()
		if tok == token.EOF {
			return
		}
		do(tok, text)
	}
}
