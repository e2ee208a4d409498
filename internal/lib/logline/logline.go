// Package logline writes log lines of bounded length, because they contain external text, such as
// etcd values, CNI arguments and Kubernetes names.
package logline

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Longest is the maximum length of a text in a log line, in bytes.
const Longest = 4 << 10

// New returns a logger that writes text lines. Control characters are quoted.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: Bounded}))
}

// Bounded truncates the value of an attribute; it is a slog.HandlerOptions.ReplaceAttr.
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

// Cut truncates a text to Longest and appends its length.
func Cut(text string) string {
	if len(text) <= Longest {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:Longest], ""), len(text))
}
