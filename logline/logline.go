// Package logline writes logs whose lines are bounded: texts come from outside, such as
// values in etcd, CNI arguments and names in Kubernetes.
package logline

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Longest is how much of a text a log line has, in bytes.
const Longest = 4 << 10

// New returns a logger that writes lines of text. Control characters are quoted.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: Bounded}))
}

// Bounded shortens what is logged.
func Bounded(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Cut(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case *slog.Source, slog.Level:
		default:
			if text := fmt.Sprintf("%+v", v); len(text) > Longest {
				a.Value = slog.StringValue(Cut(text))
			}
		}
	}
	return a
}

// Cut shortens a text to Longest, and says so.
func Cut(text string) string {
	if len(text) <= Longest {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:Longest], ""), len(text))
}
