package diagram

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Sizes in pixels.
const (
	narrowest, widest   = 110, 420 // distance between neighbouring lanes
	margin, topHeight   = 20, 70
	lineHeight, stepGap = 13, 13 // stepGap is added to the lines of a step
	charWidth           = 6.7
	beside              = 8 // distance between a lane and its text
)

// layout holds the positions of the parts of a diagram.
type layout struct {
	x      map[string]int
	lines  [][]string // by step
	y      []int      // by step: position of the arrow, below the text
	width  int
	height int
}

// layout chooses the distances between lanes by the texts between them, within limits, and wraps longer
// texts, so that no text crosses another lane.
func (s *Sequence) layout(title string) layout {
	gaps := make([]int, len(s.lanes)) // to the right of each lane
	for i := range gaps {
		gaps[i] = narrowest
	}
	for _, st := range s.steps {
		if from, to := s.span(st); to == from+1 {
			gaps[from] = max(gaps[from], min(widest, textWidth(st.shown())+2*beside))
		}
	}
	for i, lane := range s.lanes { // names are centred
		for _, j := range []int{i - 1, i} {
			if j >= 0 {
				gaps[j] = max(gaps[j], min(widest, textWidth(lane)+2*beside))
			}
		}
	}
	l := layout{x: map[string]int{}}
	at := margin + max(60, textWidth(s.lanes[0])/2)
	var places []int
	for i, lane := range s.lanes {
		l.x[lane] = at
		places = append(places, at)
		at += gaps[i]
	}
	places = append(places, at)
	l.width = max(at+margin, int(1.2*float64(textWidth(title)))+2*margin)
	y := topHeight
	for _, st := range s.steps {
		from, to := s.span(st)
		lines := broken(st.shown(), int(float64(places[to]-places[from]-2*beside)/charWidth))
		y += stepGap + lineHeight*len(lines)
		l.lines = append(l.lines, lines)
		l.y = append(l.y, y)
	}
	l.height = y + stepGap + margin
	return l
}

// shown returns the text of a step with its duration.
func (st *step) shown() string {
	if st.took > 0 {
		return st.text + " " + short(st.took)
	}
	return st.text
}

// short formats a duration with three to four significant digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// span returns the lanes that bound the text of a step. A note extends to the next lane.
func (s *Sequence) span(st step) (from, to int) {
	from = slices.Index(s.lanes, st.from)
	to = slices.Index(s.lanes, st.to)
	if to < 0 || to == from {
		return from, from + 1
	}
	return min(from, to), max(from, to)
}

func textWidth(text string) int { return int(charWidth*float64(utf8.RuneCountInString(text))) + 1 }

// broken wraps the text at most characters. It breaks after a space if the line does not become too
// short, otherwise after a separator of keys, otherwise anywhere.
func broken(text string, most int) []string {
	most = max(most, 8)
	var lines []string
	rest := []rune(text)
	for len(rest) > most {
		end := most
		for j, separators := range []string{" ", "/-.:,"} {
			if i := strings.LastIndexAny(string(rest[:most]), separators); i > 0 && (j > 0 || i > most/3) {
				end = utf8.RuneCountInString(string(rest[:most])[:i]) + 1
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:end]), " "))
		rest = rest[end:]
	}
	return append(lines, string(rest))
}

// WriteSVG draws the diagram below a title.
func (s *Sequence) WriteSVG(w io.Writer, title string) error {
	l := s.layout(title)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="monospace" font-size="11">
<style>text{paint-order:stroke;stroke:white;stroke-width:3px} line{stroke:#555} .failed{stroke:#c00} .failedText{fill:#c00} .note{fill:#777}</style>
<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>
<rect width="100%%" height="100%%" fill="white"/>
<text x="%d" y="20" font-size="13">%s</text>
`, l.width, l.height, margin, html.EscapeString(title))
	for _, lane := range s.lanes {
		fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke-dasharray=\"3\"/>\n", l.x[lane], topHeight-10, l.x[lane], l.height-margin/2)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\">%s</text>\n", l.x[lane], topHeight-20, html.EscapeString(lane))
	}
	for i, st := range s.steps {
		text, line := "", ""
		switch {
		case st.failed:
			text, line = ` class="failedText"`, ` class="failed"`
		case st.to == "":
			text = ` class="note"`
		}
		if st.to != "" && st.to != st.from {
			fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"%s marker-end=\"url(#head)\"/>\n", l.x[st.from], l.y[i], l.x[st.to], l.y[i], line)
		}
		left, _ := s.span(st)
		for j, part := range l.lines[i] {
			y := l.y[i] - 5 - lineHeight*(len(l.lines[i])-1-j)
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", l.x[s.lanes[left]]+beside, y, text, html.EscapeString(part))
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
