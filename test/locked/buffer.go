// Package locked contains a buffer for tests that read the output of a running logger or program.
package locked

import (
	"bytes"
	"sync"
)

// Buffer is safe for concurrent reads and writes.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
