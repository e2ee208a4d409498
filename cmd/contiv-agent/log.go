package main

import (
	"fmt"
	"log/slog"
	"strings"
)

// longestLogged is how much of a text a log line has, in bytes: texts come from outside.
const longestLogged = 4 << 10

// bounded shortens what is logged.
func bounded(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(cut(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case *slog.Source, slog.Level:
		default:
			if text := fmt.Sprintf("%+v", v); len(text) > longestLogged {
				a.Value = slog.StringValue(cut(text))
			}
		}
	}
	return a
}

func cut(text string) string {
	if len(text) <= longestLogged {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:longestLogged], ""), len(text))
}
