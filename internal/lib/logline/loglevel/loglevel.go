// Package loglevel gives each component of a program its own log level, and serves the levels over
// HTTP. It is separate from logline for programs without HTTP.
package loglevel

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/lib/logline"
)

// Component is the attribute that names the component of a log line.
const Component = "plugin"

// program names the level of lines without a component.
const program = "default"

// levels holds the log levels by component. New components start at the program's level.
type levels struct {
	mu     sync.Mutex
	byName map[string]*slog.LevelVar
}

// New is logline.New with a level for each component, which Handler serves.
func New(w io.Writer, level slog.Leveler) *slog.Logger {
	l := &levels{byName: map[string]*slog.LevelVar{program: {}}}
	l.byName[program].Set(level.Level())
	text := slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.Level(-100), ReplaceAttr: logline.Bounded})
	return slog.New(leveled{Handler: text, levels: l, level: l.byName[program]})
}

// leveled is the slog.Handler of a component.
type leveled struct {
	slog.Handler
	levels *levels
	level  *slog.LevelVar
}

func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == Component && a.Value.Kind() == slog.KindString {
			h.level = h.levels.of(a.Value.String())
		}
	}
	h.Handler = h.Handler.WithAttrs(attrs)
	return h
}

func (h leveled) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

// of returns the level of a component, which it creates if necessary.
func (l *levels) of(name string) *slog.LevelVar {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName[name] == nil {
		l.byName[name] = &slog.LevelVar{}
		l.byName[name].Set(l.byName[program].Level())
	}
	return l.byName[name]
}

// Level is the JSON of a component's level, as in the vpp-agent.
type Level struct {
	Logger string `json:"logger"`
	Level  string `json:"level"`
}

func (l *levels) list() []Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]Level, 0, len(l.byName))
	for name, level := range l.byName {
		list = append(list, Level{name, strings.ToLower(level.Level().String())})
	}
	slices.SortFunc(list, func(a, b Level) int { return cmp.Compare(a.Logger, b.Logger) })
	return list
}

// set sets the level of a component; for the program, of all.
func (l *levels) set(name string, level slog.Level) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName[name] == nil {
		return fmt.Errorf("unknown logger %q: GET /log/list lists the loggers", name)
	}
	for other, v := range l.byName {
		if other == name || name == program {
			v.Set(level)
		}
	}
	return nil
}

// parseLevel also accepts the level names of the vpp-agent.
func parseLevel(text string) (level slog.Level, err error) {
	switch strings.ToLower(text) {
	case "trace":
		return slog.LevelDebug, nil
	case "warning":
		return slog.LevelWarn, nil
	case "fatal", "panic":
		return slog.LevelError, nil
	}
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, fmt.Errorf("unknown level %q: use debug, info, warn or error", text)
	}
	return level, nil
}

// Handler serves the levels of a logger returned by New, as the vpp-agent does:
//
//	GET /log/list
//	PUT /log/{logger}/{level}    logger default: all
//
// Loggers are named by component. Errors are answered with {"Error": "text"}.
func Handler(log *slog.Logger) http.Handler {
	l := &levels{byName: map[string]*slog.LevelVar{program: {}}}
	if h, ok := log.Handler().(leveled); ok {
		l = h.levels
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /log/list", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, l.list()) })
	mux.HandleFunc("PUT /log/{logger}/{level}", func(w http.ResponseWriter, r *http.Request) {
		level, err := parseLevel(r.PathValue("level"))
		if err != nil {
			answer(w, http.StatusBadRequest, map[string]string{"Error": err.Error()})
			return
		}
		if err := l.set(r.PathValue("logger"), level); err != nil {
			answer(w, http.StatusNotFound, map[string]string{"Error": err.Error()})
			return
		}
		answer(w, http.StatusOK, Level{r.PathValue("logger"), strings.ToLower(level.String())})
	})
	return mux
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
