package text

import (
	"io"
	"os"
	"regexp"

	"golang.org/x/sys/unix"
)

// Colours reports whether out is a terminal on which colours are wanted: see https://no-color.org.
func Colours(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// Progress returns what shows a line at a terminal in the place of the one before, "" for none; nil if out
// is no terminal.
func Progress(out io.Writer) func(line string) {
	if !isTerminal(out) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return func(line string) {
		const clear = "\r\x1b[K"
		_, _ = io.WriteString(out, clear+string(printable([]byte(line)))) // there is nobody to tell errors
	}
}

// Colours of states, as terminals are told.
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

// state is one at the beginning of a cell, and what follows.
var state = regexp.MustCompile(`^(not ready|[A-Za-z]+)((?:[:,].*)?)$`)

// painter returns where a table is written, and how cells are coloured. The texts of others cannot bring colours
// of their own: what colours are added to is plain already.
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
