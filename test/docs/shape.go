package docs

import (
	"regexp"
	"slices"
	"strings"
)

// wild lists patterns of texts that differ between runs, in order of application.
var wild = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\b(([0-9a-f]{2}:){5}[0-9a-f]{2}\b|([0-9a-f]{2}:){1,5}…)`), "MAC"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d(\.\d+)?\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ns|µs|ms|s|m|h))+\b`), "DURATION"},
	{regexp.MustCompile(`\b[0-9a-f]*\d[0-9a-f]*[a-f][0-9a-f]{4,}…?|\b[0-9a-f]*[a-f][0-9a-f]*\d[0-9a-f]{4,}…?|\b[0-9a-f]{12,}…?`), "ID"},
}

// number matches a number that is not part of a name such as node1.
var number = regexp.MustCompile(`(^|[^A-Za-z_\d])\d+`)

// remark matches a comment of the page after a line of output.
var remark = regexp.MustCompile(`\s{2,}# .*$`)

// jsonSpace matches protojson's space between fields, which depends on the build.
var jsonSpace = regexp.MustCompile(`([{\[,:]) +(["\[{])`)

// elision stands for any lines, or for any part of a word.
const elision = "…"

// words returns the words of the output without variable texts and line breaks.
func words(output string) []string {
	var all []string
	for line := range strings.SplitSeq(output, "\n") {
		all = append(all, strings.Fields(remark.ReplaceAllString(line, ""))...)
	}
	text := jsonSpace.ReplaceAllString(strings.Join(all, " "), "$1$2")
	for _, w := range wild {
		text = w.what.ReplaceAllString(text, w.as)
	}
	for number.MatchString(text) {
		text = number.ReplaceAllString(text, "${1}N")
	}
	return strings.Fields(text)
}

// sameShape reports whether output matches the sample: the same words in the same order, except
// variable texts and elisions.
func sameShape(sample, output string) bool {
	want, got := words(sample), words(output)
	parts := [][]string{{}}
	for _, w := range want {
		if w == elision {
			parts = append(parts, []string{})
			continue
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], w)
	}
	last := len(parts) - 1
	for i, part := range parts {
		switch at := find(got, part); {
		case i == 0 && i == last:
			return at == 0 && len(got) == len(part)
		case i == 0 && at != 0:
			return false
		case i == last:
			return len(got) >= len(part) && find(got[len(got)-len(part):], part) == 0
		case at < 0:
			return false
		default:
			got = got[at+len(part):]
		}
	}
	return true
}

func find(list, part []string) int {
	for i := 0; i+len(part) <= len(list); i++ {
		if slices.EqualFunc(list[i:i+len(part)], part, sameWord) {
			return i
		}
	}
	return -1
}

// sameWord compares a word of the output with a sample's, which may have elisions.
func sameWord(got, want string) bool {
	if got == want {
		return true
	}
	if !strings.Contains(want, elision) {
		return false
	}
	pieces := strings.Split(want, elision)
	for i := range pieces {
		pieces[i] = regexp.QuoteMeta(pieces[i])
	}
	return regexp.MustCompile("^" + strings.Join(pieces, ".*") + "$").MatchString(got)
}
