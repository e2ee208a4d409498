package text

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Messages returns a writer of sentences, such as errors, that wraps lines at Width.
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

// broken breaks long lines and indents the continuation.
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

// Column breaks a text that follows other text on its line: all its lines start in the same column.
func Column(text string, width, before int) string {
	return strings.Join(wrap(text, width-before), "\n"+strings.Repeat(" ", before))
}

// Reflow breaks paragraphs into lines of the width. Indented lines are kept.
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
