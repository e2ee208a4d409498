package policies

import (
	"strings"
	"testing"
)

func TestNamesOfSets(t *testing.T) {
	const hashed = "default-0123456789abcdef"
	for name, stays := range map[string]bool{
		"":                                  true,
		"default-client-5":                  true,
		"UPPER-09":                          true,
		strings.Repeat("x", 40):             true,
		strings.Repeat("x", 41):             false,
		"default/client":                    false,
		"naïve":                             false,
		"line\n":                            false,
		hashed:                              false,
		hashed + "0":                        true,
		"0123456789abcdef":                  true,
		"-0123456789abcdef":                 false,
		strings.ToUpper(hashed):             true,
		"default-0123456789abcdeg":          true,
		strings.Repeat("x", 24) + hashed:    false,
		strings.Repeat("x", 17) + "-" + "a": true,
	} {
		want := ident(name)
		if stays {
			want = name
		}
		if got := setIdent(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
