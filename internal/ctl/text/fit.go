package text

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// To fit a terminal, a table's widest columns are shortened, to at least shortest. If that is not
// enough, spare columns are left out, and a text in the last column with little room gets separate
// lines.
//
//	NODE  SEQ  TIME                TOOK   EVENT  OPS  FAILED  TRANSACTION
//	n1    348  11-27 00:04:27.729  302µs  348    95   0
//	    add pod shop/web: …

const (
	// shortest is the minimum width of a shortened column.
	shortest = 12
	// readable is the minimum width of a text column.
	readable = 30
	// below is the indentation of text on separate lines.
	below = 4
	// ellipsis ends a shortened cell.
	ellipsis = "…"
)

// whole lists columns that are never shortened.
var whole = []string{
	"TIME", "SINCE", "TOOK", "STATE", "LINK", "VERDICT", "AGENT", "ROUND-TRIP",
	"IP", "NODE-IP", "VSWITCH-IP", "MANAGEMENT-IP", "VXLAN-IP", "POD-CIDR", "POD-SUBNET", "POD-GATEWAY", "CLUSTER-PODS", "HOST-NETWORK", "NAT-LOOPBACK",
	"MAIN-INTERFACE", "GATEWAY", "FRONTEND", "FRONTENDS", "ENDPOINT", "MAC",
}

// Spare names columns that may be left out for a narrow terminal, in this order.
func (t *Table) Spare(columns ...string) { t.spare = columns }

// fit shortens cells and leaves out columns until the rows fit the width, if possible. It returns
// the widths of all columns but the last, and the omitted columns.
func (t *Table) fit(total int) (widths []int, left []string) {
	for {
		widths, last := t.widths(), len(t.header)-1
		header := t.header[last]
		if t.narrow(widths, total-min(t.widthOf(last), readable)) {
			t.shorten(widths)
			return widths, left
		}
		spare := slices.IndexFunc(t.spare, func(name string) bool { return slices.Contains(t.header, name) })
		if spare < 0 {
			widths = t.widths()
			t.narrow(widths, total-utf8.RuneCountInString(header))
			t.shorten(widths)
			return widths, left
		}
		left = append(left, t.spare[spare])
		t.remove(slices.Index(t.header, t.spare[spare]))
	}
}

// narrow shortens the widest columns until all fit, and reports whether they do.
func (t *Table) narrow(widths []int, room int) bool {
	excess := -room
	for _, width := range widths {
		excess += width + columnGap
	}
	if excess <= 0 {
		return true
	}
	least := t.least(widths)
	for ; excess > 0; excess-- {
		widest := -1
		for i, width := range widths {
			if width > least[i] && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// least returns the minimum widths of columns with these widths.
func (t *Table) least(widths []int) []int {
	least := make([]int, len(widths))
	for i, width := range widths {
		if slices.Contains(whole, t.header[i]) {
			least[i] = width
			continue
		}
		least[i] = max(shortest, utf8.RuneCountInString(t.header[i]))
		for _, row := range t.rows {
			if address := addressIn(row[i]); address != "" {
				least[i] = max(least[i], min(len(address)+nameBefore, utf8.RuneCountInString(row[i])))
			}
		}
	}
	return least
}

// nameBefore is the kept length of a name before its address.
const nameBefore = 6

// addressIn returns the end of a cell that is not shortened: an address, possibly in parentheses
// after its name; "" if none.
func addressIn(cell string) string {
	begin := strings.LastIndexByte(cell, ' ') + 1
	if _, err := netip.ParseAddr(strings.Trim(cell[begin:], "()")); err != nil {
		return ""
	}
	return cell[max(0, begin-1):]
}

// shorten cuts cells that are wider than their columns.
func (t *Table) shorten(widths []int) {
	for _, row := range t.rows {
		for i, width := range widths {
			if utf8.RuneCountInString(row[i]) > width {
				end := addressIn(row[i])
				row[i] = string([]rune(row[i])[:width-len(end)-1]) + ellipsis + end
			}
		}
	}
}

func (t *Table) remove(column int) {
	t.header = slices.Delete(slices.Clone(t.header), column, column+1)
	for i := range t.rows {
		t.rows[i] = slices.Delete(t.rows[i], column, column+1)
	}
}

// lines breaks the text of the last column into lines and returns their indentation. If that is
// less than the column's position, the lines go below the row.
func (t *Table) lines(text string, indent, total int) (lines []string, at int) {
	room := total - indent
	if !t.Terminal || utf8.RuneCountInString(text) <= room {
		return wrap(text, room), indent
	}
	if room >= readable {
		lines = wrap(text, room)
		if !slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > room }) {
			return lines, indent
		}
	}
	lines = nil
	for _, line := range wrap(text, total-below) {
		for rest := []rune(line); len(rest) > 0; {
			n := min(len(rest), total-below)
			lines = append(lines, string(rest[:n]))
			rest = rest[n:]
		}
	}
	return lines, min(indent, below)
}

// leftOut says which columns are missing.
func leftOut(columns []string) string {
	return "(" + strings.Join(columns, ", ") + ": with -o wide, or in a wider terminal)"
}
