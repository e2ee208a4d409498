package main

import (
	"bytes"
	"io"
	"sync"
)

// maxLine is the longest line that is written in one piece.
const maxLine = 64 << 10

// lineLog is a log of several writers that keeps their lines apart.
type lineLog struct {
	mu  sync.Mutex
	out io.Writer
}

func newLog(out io.Writer) *lineLog { return &lineLog{out: out} }

// lines returns a writer that prefixes each line with the name.
func (l *lineLog) lines(name string) *lineWriter { return &lineWriter{log: l, prefix: name + ": "} }

// lineWriter collects a line until it is complete. Close writes the rest.
type lineWriter struct {
	log    *lineLog
	prefix string

	mu   sync.Mutex
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		switch {
		case end >= 0:
			w.write(w.rest[:end])
			w.rest = w.rest[end+1:]
		case len(w.rest) > maxLine:
			w.write(w.rest)
			w.rest = nil
		default:
			return len(p), nil
		}
	}
}

func (w *lineWriter) write(line []byte) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	// One write per line. Write errors are ignored, because the children must not block.
	_, _ = w.log.out.Write(append(append([]byte(w.prefix), bytes.TrimRight(line, "\r")...), '\n'))
}

func (w *lineWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.write(w.rest)
		w.rest = nil
	}
	return nil
}
