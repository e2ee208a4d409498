package text

import (
	"io"
	"os"
	"regexp"

	"github.com/contiv/contiv/internal/lib/terminal"
)

// Colours reports whether out is a terminal that should show colours: see https://no-color.org.
func Colours(out io.Writer) bool {
	return terminal.Is(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Progress returns a function that shows a progress line on a terminal, or removes it for ""; nil
// if out is no terminal.
func Progress(out io.Writer) func(line string) {
	if !terminal.Is(out) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return func(line string) {
		const clear = "\r\x1b[K"
		_, _ = io.WriteString(out, clear+string(printable([]byte(line)))) // errors cannot be reported anywhere
	}
}

// Colours of states, as escape sequences.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	normal = "\x1b[0m"
)

var colours = map[string]string{
	"CONFIGURED": green, "healthy": green, "ready": green, "UP": green, "yes": green,
	"PENDING": yellow, "degraded": yellow, "MISSING": yellow, "DOWN": yellow,
	"FAILED": red, "RETRYING": red, "INVALID": red, "UNIMPLEMENTED": red, "broken": red, "unreachable": red, "not ready": red, "no": red,
}

// state matches a state at the start of a cell, and the rest.
var state = regexp.MustCompile(`^(not ready|[A-Za-z]+)((?:[:,].*)?)$`)

// painter returns the writer of a table and the function that colours its cells. Cells are
// neutralised first, because text from elsewhere may contain escape sequences.
func (t *Table) painter() (io.Writer, func(string) string) {
	to, ok := t.Writer.(plain)
	if !ok || !t.Colour {
		return t.Writer, func(cell string) string { return cell }
	}
	return to.w, func(cell string) string {
		cell = string(printable([]byte(cell)))
		m := state.FindStringSubmatch(cell)
		if m == nil || colours[m[1]] == "" {
			return cell
		}
		return colours[m[1]] + m[1] + normal + m[2]
	}
}
