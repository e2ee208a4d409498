package text

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Printer writes text and tables for people.
type Printer struct {
	io.Writer
	// Full: identifiers are not shortened.
	Full bool
	// Wide: tables have additional columns.
	Wide bool
	// Colour enables coloured states; Writer must be made by Plain.
	Colour bool
	// Width is the number of columns that tables try to fit; 0 means DefaultWidth.
	Width int
	// Terminal forbids lines wider than Width.
	Terminal bool
}

// Text shortens long identifiers. A shortened key can still be searched, because keys match by
// their beginning.
func (p Printer) Text(s string) string {
	if p.Full {
		return s
	}
	var b strings.Builder
	copied := 0
	if len(s) < identifier {
		return s
	}
	for at := identifier - 1; at < len(s); at += identifier { // one of every identifier characters is inside each identifier
		if !isHex(s[at]) {
			continue
		}
		begin, end := at, at
		for begin > copied && isHex(s[begin-1]) {
			begin--
		}
		for end < len(s) && isHex(s[end]) {
			end++
		}
		if end-begin >= identifier {
			b.WriteString(s[copied:begin+12] + "…")
			copied = end
		}
		at = max(at, end-1)
	}
	if copied == 0 {
		return s
	}
	return b.String() + s[copied:]
}

// identifier is the length from which a hexadecimal number, such as a container ID, is shortened.
const identifier = 24

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' }

// Printf formats sentences with shortened identifiers, and breaks lines if needed.
func (p Printer) Printf(format string, args ...any) {
	text := p.Text(fmt.Sprintf(format, args...))
	if p.Terminal {
		text = broken(text, p.columns())
	}
	io.WriteString(p, text) // errors cannot be reported anywhere
}

func (p Printer) columns() int { return cmp.Or(p.Width, DefaultWidth) }

// Table aligns columns. Rows that do not fit are wrapped in the last column at spaces. Cells are
// cut only for a terminal.
type Table struct {
	Printer
	header []string
	rows   [][]string
	cells  []string // room for further rows
	spare  []string
}

// Table returns an empty table. A header of empty texts is not printed.
func (p Printer) Table(header ...string) *Table { return &Table{Printer: p, header: header} }

// Add adds a row. Empty cells become "-", except in the last column.
func (t *Table) Add(cells ...string) {
	n := len(t.header)
	if len(t.cells) < n {
		t.cells = make([]string, n*(1+min(len(t.rows), 255)))
	}
	row := t.cells[:n:n]
	t.cells = t.cells[n:]
	for i := range row {
		if i < len(cells) {
			row[i] = t.Text(Line(cells[i]))
		}
		if row[i] == "" && i < len(row)-1 {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Line replaces tabs and line breaks, so that an untrusted name cannot look like further lines or cells.
func Line(s string) string {
	if strings.IndexByte(s, '\n') < 0 && strings.IndexByte(s, '\t') < 0 { // most often
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\n", " "), "\t", " ")
}

// Empty reports whether the table has no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

const columnGap = 2

// widths returns the widths of all columns but the last.
func (t *Table) widths() []int {
	widths := make([]int, len(t.header)-1)
	for i := range widths {
		widths[i] = t.widthOf(i)
	}
	return widths
}

func (t *Table) widthOf(column int) int {
	width := utf8.RuneCountInString(t.header[column])
	for _, row := range t.rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	return width
}

func (t *Table) Print() {
	total := t.columns()
	var widths []int
	var left []string
	if t.Terminal {
		widths, left = t.fit(total)
	} else {
		widths = t.widths()
	}
	last := len(t.header) - 1
	rows := t.rows
	if strings.Join(t.header, "") != "" {
		rows = append([][]string{t.header}, rows...)
	}
	indent := 0
	for _, width := range widths {
		indent += width + columnGap
	}
	out, paint := t.painter()
	var b []byte
	newLine := func() {
		for len(b) > 0 && b[len(b)-1] == ' ' {
			b = b[:len(b)-1]
		}
		b = append(b, '\n')
	}
	for n, row := range rows {
		paint := paint
		if n == 0 && len(rows) > len(t.rows) { // the header may name a state
			paint = func(cell string) string { return cell }
		}
		for i, width := range widths {
			b = append(b, paint(row[i])...)
			b = appendSpaces(b, width-utf8.RuneCountInString(row[i])+columnGap)
		}
		lines, at := t.lines(row[last], indent, total)
		for i, line := range lines {
			if i > 0 || at < indent {
				newLine()
				b = appendSpaces(b, at)
			}
			b = append(b, paint(line)...)
		}
		newLine()
		if len(b) >= piece {
			out.Write(b) // errors cannot be reported anywhere
			b = b[:0]
		}
	}
	switch {
	case len(t.rows) == 0:
		b = append(b, "(none)\n"...)
	case len(left) > 0:
		b = append(append(b, leftOut(left)...), '\n')
	}
	out.Write(b)
}

// piece is how much of a table is written at once, in bytes. Allocating memory for a whole long
// table takes longer than filling it.
const piece = 64 << 10

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// wrap breaks a text into lines of the width, preferably at double spaces, otherwise at single
// ones. Long words stay whole. Below 30 columns, text is not broken. All lines have the text's
// indentation.
func wrap(text string, width int) []string {
	if len(text) <= width {
		return []string{text}
	}
	if inner := strings.TrimLeft(text, " "); inner != text {
		indent := text[:len(text)-len(inner)]
		lines := wrap(inner, width-len(indent))
		for i := range lines {
			lines[i] = indent + lines[i]
		}
		return lines
	}
	if width < 30 || len(text) <= width || utf8.RuneCountInString(text) <= width {
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

// fill joins parts into lines of at most the width.
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
