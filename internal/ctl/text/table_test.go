package text

import (
	"strings"
	"testing"
)

// Hexadecimal numbers of 24 digits and more are shortened everywhere.
func TestLongNumbersAreShortened(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4)
	for _, length := range []int{1, 12, 23, 24, 25, 47, 48, 64} {
		for offset := range 50 {
			number, before := long[:length], strings.Repeat("x", offset)
			want := number
			if length >= 24 {
				want = number[:12] + "…"
			}
			for _, after := range []string{"", "/", "-" + number, "/" + strings.Repeat("y", 30) + number} {
				text, wanted := before+number+after, before+want+strings.ReplaceAll(after, number, want)
				if length < 24 {
					wanted = text
				}
				if got := (Printer{}).Text(text); got != wanted {
					t.Fatalf("%s becomes %s, not %s", text, got, wanted)
				}
			}
		}
	}
}
