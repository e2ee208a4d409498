package text

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Messages returns a writer of sentences for people, such as errors. No line is wider than it must be, see Width.
func Messages(out io.Writer) io.Writer {
	if width, must := Width(out); must {
		return messages{Plain(out), width}
	}
	return Plain(out)
}

type messages struct {
	io.Writer
	width int
}

func (m messages) Write(b []byte) (int, error) {
	if _, err := io.WriteString(m.Writer, broken(string(b), m.width)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// broken breaks lines that are wider, and indents what follows.
func broken(text string, width int) string {
	const further = 2
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if utf8.RuneCountInString(line) > width {
			indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+further)
			parts := wrap(line, width-further)
			for n := range parts[1:] {
				parts[n+1] = indent + strings.TrimLeft(parts[n+1], " ")
			}
			lines[i] = strings.Join(parts, "\n")
		}
	}
	return strings.Join(lines, "\n")
}

// Column breaks a text that stands behind others on its line: all its lines begin in the same column.
func Column(text string, width, before int) string {
	return strings.Join(wrap(text, width-before), "\n"+strings.Repeat(" ", before))
}

// Reflow breaks paragraphs into lines of the width. Lines that are indented stay as they are.
func Reflow(text string, width int) string {
	var lines []string
	joined := false // the last line goes on
	for line := range strings.SplitSeq(text, "\n") {
		plain := line != "" && !strings.HasPrefix(line, " ")
		if plain && joined {
			lines[len(lines)-1] += " " + line
		} else {
			lines = append(lines, line)
		}
		joined = plain
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, " ") {
			lines[i] = strings.Join(wrap(line, width), "\n")
		}
	}
	return strings.Join(lines, "\n")
}
