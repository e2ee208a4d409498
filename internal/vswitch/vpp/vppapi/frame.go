package vppapi

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A message on the socket has a header of 16 bytes, of which only the length is used (bytes 8 to
// 11, big endian). The message follows: its number (2 bytes); in requests the client's index (4)
// and the context (4), in replies and events the context (4); then the fields. The first two
// messages have the reverse order.
const (
	headerSize = 16
	// largestFrame bounds a message: a longer one indicates another protocol.
	largestFrame = 64 << 20
)

// WriteFrame writes a message with its header.
func WriteFrame(w io.Writer, msg []byte) error {
	var header [headerSize]byte
	binary.BigEndian.PutUint32(header[8:], uint32(len(msg)))
	if _, err := w.Write(header[:]); err != nil {
		return err
	}
	_, err := w.Write(msg)
	return err
}

// ReadFrame reads a message.
func ReadFrame(r io.Reader) ([]byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[8:])
	if size < 2 || size > largestFrame {
		return nil, fmt.Errorf("a message of %d bytes: this is not VPP's binary API", size)
	}
	msg := make([]byte, size)
	_, err := io.ReadFull(r, msg)
	return msg, err
}
