package text

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/contiv/contiv/internal/lib/terminal/terminaltest"
)

func TestWidth(t *testing.T) {
	wide, _ := terminaltest.Open(t, 200)
	tiny, _ := terminaltest.Open(t, 20)
	for _, c := range []struct {
		columns string
		out     io.Writer
		want    int
		must    bool
	}{
		{"", &strings.Builder{}, DefaultWidth, false},
		{"", wide, 200, true},
		{"", tiny, narrowest, true},
		{"1000", wide, 1000, true},
		{"80", &strings.Builder{}, 80, true},
		{"1", &strings.Builder{}, narrowest, true},
		{"many", &strings.Builder{}, DefaultWidth, false},
		{"many", wide, 200, true},
	} {
		t.Setenv("COLUMNS", c.columns)
		if got, must := Width(c.out); got != c.want || must != c.must {
			t.Errorf("COLUMNS=%q, %T: %d, %v, want %d, %v", c.columns, c.out, got, must, c.want, c.must)
		}
	}
}

// Tables use the available columns.
func TestTablesAreAsWideAsTheTerminal(t *testing.T) {
	for _, width := range []int{60, 0, 300} {
		var b strings.Builder
		table := Printer{Writer: &b, Width: width}.Table("A", "TEXT")
		table.Add("x", strings.Repeat("word ", 50))
		table.Print()
		want, longest := width, 0
		if want == 0 {
			want = DefaultWidth
		}
		for line := range strings.Lines(b.String()) {
			longest = max(longest, len(strings.TrimSpace(line)))
		}
		if longest > want || longest < want-50 {
			t.Errorf("width %d: %d columns\n%s", width, longest, b.String())
		}
	}
}

// No line exceeds the terminal, important columns stay whole, and no text is lost.
func TestTablesFitTerminals(t *testing.T) {
	print := func(width int, spare []string, header []string, row ...string) string {
		var b strings.Builder
		table := Printer{Writer: &b, Width: width, Terminal: true}.Table(header...)
		table.Spare(spare...)
		table.Add(row...)
		table.Print()
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns instead of %d:\n%s", n, width, b.String())
			}
		}
		return b.String()
	}
	long := strings.Repeat("word ", 30) + "end"
	for name, c := range map[string]struct {
		got  string
		want []string
		not  string
	}{
		"no room for the text": {
			print(80, nil, []string{"NODE", "SEQ", "TIME", "TOOK", "EVENT", "OPS", "FAILED", "TRANSACTION"}, "node1", "348", "11-27 00:04:27.729", "302.12µs", "348", "95", "0", long),
			[]string{"11-27 00:04:27.729", "\n    word word", "end\n"}, "…",
		},
		"a word that is too long": {
			print(80, nil, []string{"NODE", "STATE", "KEY"}, "node1", "CONFIGURED", strings.Repeat("k/", 70)),
			[]string{"CONFIGURED\n    k/k/"}, "…",
		},
		"a wide column": {
			print(80, nil, []string{"NODE", "POD", "REASON"}, "node1", strings.Repeat("p", 70), "a reason of five words"),
			[]string{"ppp…  a reason of five words\n"}, "(",
		},
		"many columns": {
			print(60, []string{"SPEED", "MTU"}, []string{"NODE", "INTERFACE", "SPEED", "MTU", "DEVICE", "MAC"}, "node1", strings.Repeat("i", 23), "1000000G", "1450", "veth-0123456789", "02:fe:00:00:00:01"),
			[]string{"02:fe:00:00:00:01\n", "(SPEED: with -o wide, or in a wider terminal)", "MTU"}, "1000000G",
		},
		"addresses after names": {
			print(80, []string{"PACKETS"}, []string{"TIME", "NODE", "FROM", "TO", "PORT", "PACKETS", "WHY"}, "12:00:03", "node1", "shop-of-the-city/frontend-7c9d8b6f5-abcde (10.1.1.3)", "fd00:10:1:2:3:4:5:6", "5353/udp", "3", "a reason of five words"),
			[]string{"…", " (10.1.1.3)  fd00:10:1:2:3:4:5:6  5353/udp\n    a reason of five words\n"}, "  3",
		},
		"addresses, and columns that matter less": {
			print(60, []string{"CLUSTER-PODS", "PODS"}, []string{"NODE", "NODE-IP", "POD-SUBNET", "PODS", "CLUSTER-PODS"}, "node1", "192.168.16.101/24", "fd00:1:2:3::/112", "200/252", "10.1.0.0/16"),
			[]string{"192.168.16.101/24  fd00:1:2:3::/112  200/252\n", "(CLUSTER-PODS: with -o wide"}, "…",
		},
		"enough room": {
			print(120, []string{"B"}, []string{"A", "B"}, strings.Repeat("x", 50), "b"), []string{strings.Repeat("x", 50) + "  b\n"}, "(",
		},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.got, want) || strings.Contains(c.got, c.not) {
				t.Errorf("%s: %q is missing, or %q in it:\n%s", name, want, c.not, c.got)
			}
		}
	}
}
