package house

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// link matches an inline link or picture of Markdown; the group is its target.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// Each relative link of a page leads to an existing file or heading.
func TestLinksOfPages(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := pagesOf(t, root)
	for path, page := range pages {
		for _, l := range page.links {
			target, heading, _ := strings.Cut(l.target, "#")
			if strings.Contains(target, ":") {
				continue // elsewhere
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), filepath.FromSlash(target))
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s:%d: link to %s: no such file", path, l.line, l.target)
				continue
			}
			if other, isPage := pages[to]; heading != "" && (!isPage || !slices.Contains(other.anchors, heading)) {
				t.Errorf("%s:%d: link to %s: no such heading", path, l.line, l.target)
			}
		}
	}
}

// docs/README.md lists every page below its directory, except decision records.
func TestIndexOfPages(t *testing.T) {
	pages := pagesOf(t, filepath.Join("..", ".."))
	index := pages[filepath.Join("docs", "README.md")]
	for path := range pages {
		name, below := strings.CutPrefix(filepath.ToSlash(path), "docs/")
		if !below || name == "README.md" || strings.HasPrefix(name, "design/adr/") {
			continue
		}
		if !slices.ContainsFunc(index.links, func(l pageLink) bool { return l.target == name }) {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

var mention = regexp.MustCompile(`\bdocs/(?:[a-z0-9-]+/)*[a-z0-9-]+\.md\b`)

// seedDocument matches a reference to a document that is not in the repository.
var seedDocument = regexp.MustCompile(`(?i)\bseed 00[0-9]`)

// Pages that code, manifests and scripts mention exist, and are in the repository.
func TestMentionedPagesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	texts := map[string]bool{".go": true, ".yaml": true, ".tpl": true, ".sh": true, ".proto": true, ".txtar": true, ".mk": true, "": true}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == ".git"):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !texts[filepath.Ext(path)]:
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if text := seedDocument.Find(data); text != nil {
			t.Errorf("%s refers to %q, which readers do not have: move the text into docs", path, text)
		}
		for _, name := range mention.FindAllString(string(data), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s mentions %s, which does not exist", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

type page struct {
	links []pageLink
	// anchors of the page's headings.
	anchors []string
}

type pageLink struct {
	target string
	line   int
}

// pagesOf reads all Markdown pages below root, by relative path.
func pagesOf(t *testing.T, root string) map[string]page {
	t.Helper()
	pages := make(map[string]page)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		pages[rel] = parsePage(string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func parsePage(text string) (p page) {
	code := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code {
			continue
		}
		if heading, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") {
			p.anchors = append(p.anchors, p.anchor(heading))
		}
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			p.links = append(p.links, pageLink{match[1], i + 1})
		}
	}
	return p
}

// anchor returns a heading's anchor like GitHub, which numbers equal headings.
func (p *page) anchor(heading string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
	unique := slug
	for n := 1; slices.Contains(p.anchors, unique); n++ {
		unique = fmt.Sprintf("%s-%d", slug, n)
	}
	return unique
}
