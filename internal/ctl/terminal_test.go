package ctl

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/contiv/contiv/internal/lib/terminal/terminaltest"
	"github.com/contiv/contiv/models"
)

// colouring matches escape sequences of colours.
var colouring = regexp.MustCompile("\x1b\\[[0-9;]*m")

// No table exceeds the terminal; with -o wide, nothing is missing.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	agent := bigNode(t, 3, 50)
	values := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("model: vpp.route\nvalue: {dst_network: 10.8.0.0/16, outgoing_interface: uplink}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	words := strings.NewReplacer(" FILE", " "+values, "KEY", models.VPPInterfaceKey(fmt.Sprintf("vpp-tap-%064x", 1)), "txn:300", "txn:1", "txn:340", "txn:2", "web-7", "web-1", "web-8", "web-2", "10.20.3.0/24", "10.0.10.0/24", "txns 17", "txns 2")
	for _, line := range commandLines {
		// Not tables: values and drawings for programs, the record of an event, and sentences.
		if strings.Contains(line, " -o ") || strings.HasPrefix(line, "graph") || strings.HasPrefix(line, "report") || strings.Contains(line, "--seq") || strings.HasPrefix(line, "check-config") {
			continue
		}
		for _, width := range []int{80, 120} {
			terminal, shown := terminaltest.Open(t, uint16(width))
			c := Command("contivctl", terminal, io.Discard)
			c.SetArgs(withAgent(agent, words.Replace(line)))
			if err := Execute(t.Context(), c); err != nil && ExitCode(err) != 1 {
				t.Errorf("%s: %v", line, err)
			}
			out := colouring.ReplaceAllString(shown(), "")
			if out == "" {
				t.Errorf("%s: shows nothing", line)
			}
			for text := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(text, "\n")); n > width {
					t.Errorf("%s: %d columns in a terminal of %d:\n%s", line, n, width, text)
					break
				}
			}
		}
	}
}
