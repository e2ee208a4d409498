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
	fence      = regexp.MustCompile("(?s)```.*?```")
	inlineCode = regexp.MustCompile("`[^`]*`")
	htmlText   = regexp.MustCompile(`(?s)<!--.*?-->`)
	linkTarget = regexp.MustCompile(`\]\([^)]*\)`)
)

// generatedPages hold texts of the code, which have their own ceilings, or raw results.
var generatedPages = map[string]bool{"reference/metrics.md": true, "reference/commands.md": true, "design/faults.md": true}

// Pages of the documentation are plain, start with their purpose, and have short cells and lines.
func TestPagesArePlain(t *testing.T) {
	const cellWords, lineLength, userLines = 25, 110, 200
	root := filepath.Join("..", "..", "docs")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		text := plainText(t, "docs/"+name, data)
		if n := strings.Count(string(data), "\n"); strings.HasPrefix(name, "user/") && n > userLines {
			t.Errorf("docs/%s has %d lines, more than %d: split it by task", name, n, userLines)
		}
		if generatedPages[name] {
			return nil
		}
		if first := firstText(text); strings.HasPrefix(first, "|") || strings.HasPrefix(first, "#") || strings.HasPrefix(first, "- ") {
			t.Errorf("docs/%s: start with a paragraph that says what the page helps to do, not with %q", name, first)
		}
		for i, line := range strings.Split(htmlText.ReplaceAllStringFunc(fence.ReplaceAllStringFunc(string(data), blankLines), blankLines), "\n") {
			for cell := range strings.SplitSeq(strings.TrimPrefix(line, "|"), "|") {
				if n := len(strings.Fields(linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(cell, "x"), "]"))); strings.HasPrefix(line, "|") && n > cellWords {
					t.Errorf("docs/%s:%d: a cell of %d words, more than %d: move the explanation into the text", name, i+1, n, cellWords)
				}
			}
			if n := len([]rune(linkTarget.ReplaceAllString(line, "]"))); n > lineLength && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ") {
				t.Errorf("docs/%s:%d: a line of %d characters: break it at about 100", name, i+1, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Pages at the top are plain, too.
func TestTopPagesArePlain(t *testing.T) {
	for _, name := range []string{"README.md", "SECURITY.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		plainText(t, name, data)
	}
}

// plainText returns a page without code, and reports too many words of the fingerprint.
func plainText(t *testing.T, name string, data []byte) string {
	t.Helper()
	const perThousand = 6
	text := inlineCode.ReplaceAllString(fence.ReplaceAllString(string(data), " "), "x")
	words, hits := len(word.FindAllString(text, -1)), len(fingerprint.FindAllString(text, -1))
	if hits > 1 && hits*1000 > perThousand*words {
		t.Errorf("%s: %d words of the fingerprint among %d, more than %d per 1,000: say them in plain English", name, hits, words, perThousand)
	}
	return text
}

// blankLines keeps the line numbers of a block that is left out.
func blankLines(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) }

// firstText returns the first line after the title.
func firstText(text string) string {
	for line := range strings.Lines(htmlText.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") {
			return line
		}
	}
	return ""
}
