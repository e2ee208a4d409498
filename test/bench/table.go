package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// writeTable compares the results with the bars.
//
//	one of N values is updated  [p50-µs]
//	  N=100     6.1    ≤ 9   peer  ok
//	  growth    1.4 ×  < 2 ×       ok
func writeTable(w io.Writer, r results) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	met, missed := 0, 0
	verdict := func(ok bool) string {
		if ok {
			met++
			return "ok"
		}
		missed++
		return "missed"
	}
	for _, b := range bars {
		fmt.Fprintf(out, "%s  [%s]\n", b.title, b.unit)
		measured, first, last := 0, 0.0, 0.0
		for _, l := range b.limits {
			v, ok := r.of(b, l)
			if !ok {
				continue
			}
			if measured++; measured == 1 {
				first = v
			}
			last = v
			cells := []string{"  " + l.name, number(v)}
			if l.rule != "" {
				cells = append(cells, "≤ "+number(l.most), l.rule, verdict(v <= l.most))
			}
			fmt.Fprintln(out, strings.Join(cells, "\t"))
		}
		if measured == 0 {
			fmt.Fprintln(out, "  not measured")
		} else if b.growth != 0 && measured > 1 {
			growth := last / first
			fmt.Fprintf(out, "  growth\t%s ×\t< %s ×\tlast / first\t%s\n", number(growth), number(b.growth), verdict(growth < b.growth))
		}
		fmt.Fprintln(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d bars met, %d missed\n", met, missed)
	return err
}

// number formats with three significant digits, or with all integer digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}
