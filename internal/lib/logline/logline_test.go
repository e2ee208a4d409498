package logline

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestLogLinesAreBounded(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, slog.LevelInfo)
	huge := strings.Repeat("é\x1b\x00", 1<<18)
	log.With("with", huge).Info(huge, "text", huge, "error", errors.New(huge), "list", []string{huge}, "short", errors.New("why"), slog.Group("g", "in", huge))
	line := out.String()
	if len(line) > 200<<10 || strings.Count(line, "\n") != 1 || strings.ContainsAny(line, "\x1b\x00") || !strings.Contains(line, "short=why") || !strings.Contains(line, "(1048576 bytes)") {
		t.Errorf("%d bytes: %.300q", len(line), line)
	}
}
