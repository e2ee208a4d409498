package cniwire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Magic starts every message.
const Magic = "CNI1"

// MaxSize is the maximum JSON size of a message in bytes, as in gRPC.
const MaxSize = 4 << 20

var (
	// ErrNotSpoken is returned by Read if the peer uses another protocol.
	ErrNotSpoken = errors.New("the other side does not speak the protocol of contiv-cni")
	// ErrTooLarge is wrapped if a message is larger than MaxSize.
	ErrTooLarge = fmt.Errorf("a message has at most %d bytes", MaxSize)
)

// Write sends a message in one write.
func Write(w io.Writer, message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(data) > MaxSize {
		return fmt.Errorf("%d bytes: %w", len(data), ErrTooLarge)
	}
	frame := make([]byte, 0, len(Magic)+4+len(data))
	frame = append(frame, Magic...)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(data)))
	_, err = w.Write(append(frame, data...))
	return err
}

// Read receives a message. It returns io.EOF if the peer closed the connection without sending
// anything.
func Read(r io.Reader, message any) error {
	var magic [len(Magic)]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return err
	}
	if string(magic[:]) != Magic {
		return ErrNotSpoken
	}
	return ReadBody(r, message)
}

// ReadBody is Read for a message after its Magic.
func ReadBody(r io.Reader, message any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return unexpected(err)
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > MaxSize {
		return fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	// Allocate memory for received data only, not for the announced length.
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, int64(size)); err != nil {
		return unexpected(err)
	}
	return json.Unmarshal(data.Bytes(), message)
}

// unexpected returns io.ErrUnexpectedEOF for a truncated message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
