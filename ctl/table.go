package ctl

import (
	"io"
	"strings"
	"unicode/utf8"
)

// maxWidth is the number of columns that tables try to fit in.
const maxWidth = 120

// table aligns columns. What does not fit is wrapped in the last column, at
// spaces; nothing is ever cut off.
type table struct {
	header []string
	rows   [][]string
}

func newTable(header ...string) *table { return &table{header: header} }

// add adds a row; empty cells become "-", but in the last column.
func (t *table) add(cells ...string) {
	row := make([]string, len(t.header))
	for i := range row {
		if i < len(cells) {
			row[i] = strings.ReplaceAll(cells[i], "\n", " ")
		}
		if row[i] == "" && i < len(row)-1 {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

const columnGap = 2

func (t *table) write(w io.Writer) {
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
	for _, row := range append([][]string{t.header}, t.rows...) {
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
	io.WriteString(w, b.String())
}

// wrap breaks a text at spaces into lines of the width; longer words stay whole.
// In less than 30 columns nothing is broken.
func wrap(text string, width int) []string {
	if width < 30 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
