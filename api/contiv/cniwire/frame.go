package cniwire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Magic starts every message.
const Magic = "CNI1"

// MaxSize is how many bytes of JSON a message may have: as many as gRPC accepts.
const MaxSize = 4 << 20

var (
	// ErrNotSpoken is returned by Read when the other side speaks something else.
	ErrNotSpoken = errors.New("the other side does not speak the protocol of contiv-cni")
	// ErrTooLarge is wrapped when a message is larger than MaxSize.
	ErrTooLarge = fmt.Errorf("a message has at most %d bytes", MaxSize)
)

// Write sends a message, in one write.
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

// Read receives a message. The error is io.EOF if the other side closed the
// connection without a word.
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

// ReadBody is Read for a message whose Magic has been read.
func ReadBody(r io.Reader, message any) error {
	data, err := readFrame(r)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, message)
}

// unexpected is the error of a message that ends too early.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
