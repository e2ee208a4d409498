package ctl

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// printer writes for people.
type printer struct {
	io.Writer
	// full: identifiers are not shortened.
	full bool
}

// identifier is what nobody reads to its end, such as the ID of a container.
var identifier = regexp.MustCompile(`[0-9a-f]{24,}`)

// text shortens long identifiers. What is left of a key still finds it, since
// keys are searched by their beginning.
func (p printer) text(s string) string {
	if p.full {
		return s
	}
	return identifier.ReplaceAllStringFunc(s, func(id string) string { return id[:12] + "…" })
}

// printf writes a text with long identifiers shortened.
func (p printer) printf(format string, args ...any) {
	io.WriteString(p, p.text(fmt.Sprintf(format, args...))) // there is nobody to tell errors
}

// maxWidth is the number of columns that tables try to fit in.
const maxWidth = 120

// table aligns columns. What does not fit is wrapped in the last column, at
// spaces; nothing is ever cut off.
type table struct {
	printer
	header []string
	rows   [][]string
}

// table has no line for a header of empty texts.
func (p printer) table(header ...string) *table { return &table{printer: p, header: header} }

// add adds a row; empty cells become "-", but in the last column.
func (t *table) add(cells ...string) {
	row := make([]string, len(t.header))
	for i := range row {
		if i < len(cells) {
			row[i] = t.text(inCell.Replace(cells[i]))
		}
		if row[i] == "" && i < len(row)-1 {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// inCell keeps the texts of others from looking like rows and columns of their own.
var inCell = strings.NewReplacer("\n", " ", "\t", " ")

const columnGap = 2

func (t *table) write() {
	last := len(t.header) - 1
	widths := make([]int, last)
	indent := 0
	for i := range widths {
		widths[i] = utf8.RuneCountInString(t.header[i])
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		indent += widths[i] + columnGap
	}
	var b strings.Builder
	rows := t.rows
	if strings.Join(t.header, "") != "" {
		rows = append([][]string{t.header}, rows...)
	}
	for _, row := range rows {
		var line strings.Builder
		for i, width := range widths {
			line.WriteString(row[i])
			line.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(row[i])+columnGap))
		}
		for i, part := range wrap(row[last], maxWidth-indent) {
			if i > 0 {
				line.WriteString("\n" + strings.Repeat(" ", indent))
			}
			line.WriteString(part)
		}
		for _, l := range strings.Split(line.String(), "\n") {
			b.WriteString(strings.TrimRight(l, " ") + "\n")
		}
	}
	if len(t.rows) == 0 {
		b.WriteString("(none)\n")
	}
	io.WriteString(t, b.String())
}

// wrap breaks a text into lines of the width: where there are two spaces if that
// helps, else at single ones. Longer words stay whole. In less than 30 columns
// nothing is broken. All lines are indented as the text is.
func wrap(text string, width int) []string {
	if inner := strings.TrimLeft(text, " "); inner != text {
		indent := text[:len(text)-len(inner)]
		lines := wrap(inner, width-len(indent))
		for i := range lines {
			lines[i] = indent + lines[i]
		}
		return lines
	}
	if width < 30 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	for _, line := range fill(strings.Split(text, "  "), "  ", width) {
		if utf8.RuneCountInString(line) <= width {
			lines = append(lines, line)
			continue
		}
		lines = append(lines, fill(strings.Fields(line), " ", width)...)
	}
	return lines
}

// fill joins parts to lines that are as long as the width allows.
func fill(parts []string, gap string, width int) (lines []string) {
	for _, part := range parts {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+len(gap)+utf8.RuneCountInString(part) <= width {
			lines[last] += gap + part
			continue
		}
		lines = append(lines, part)
	}
	return lines
}
