package cniwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// InvocationMagic starts an Invocation and its Outcome.
const InvocationMagic = "CNI2"

// Invocation is a call as the runtime made it, of which contiv-cni understood nothing but where the agent
// is.
type Invocation struct {
	// Server is the socket that contiv-cni found in the configuration.
	Server string
	// The variables of the environment.
	Command, ContainerID, Netns, IfName, Args, Path string
	// Timing is not empty if contiv-cni reports how long the call took.
	Timing string
	// Stdin is the configuration.
	Stdin string
}

// Outcome is what contiv-cni does then.
type Outcome struct {
	// Declined: the agent did nothing, and contiv-cni has to understand the call by itself.
	Declined bool
	// Failed: its exit code is 1.
	Failed bool
	// Stdout is what it prints: a result, or an error.
	Stdout string
	// Log is appended to the file with the name LogFile.
	LogFile, Log string
	// Timing is the start of a JSON object, which contiv-cni completes.
	Timing string
}

// flag encodes a bool: as no text, or some.
func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}

// WriteInvocation is what contiv-cni does without this package, whose imports would cost it too much.
func WriteInvocation(w io.Writer, i *Invocation) error {
	return writeFields(w, i.Server, i.Command, i.ContainerID, i.Netns, i.IfName, i.Args, i.Path, i.Timing, i.Stdin)
}

// ReadInvocationBody receives an Invocation whose InvocationMagic has been read.
func ReadInvocationBody(r io.Reader) (*Invocation, error) {
	f, err := readFields(r, 9)
	if err != nil {
		return nil, err
	}
	return &Invocation{Server: f[0], Command: f[1], ContainerID: f[2], Netns: f[3], IfName: f[4], Args: f[5], Path: f[6], Timing: f[7], Stdin: f[8]}, nil
}

// WriteOutcome answers an Invocation.
func WriteOutcome(w io.Writer, o *Outcome) error {
	return writeFields(w, flag(o.Declined), flag(o.Failed), o.Stdout, o.LogFile, o.Log, o.Timing)
}

// writeFields sends a message, in one write.
func writeFields(w io.Writer, fields ...string) error {
	frame := append([]byte(InvocationMagic), 0, 0, 0, 0)
	for _, field := range fields {
		frame = binary.BigEndian.AppendUint32(frame, uint32(len(field)))
		frame = append(frame, field...)
	}
	size := len(frame) - len(InvocationMagic) - 4
	if size > MaxSize {
		return fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	binary.BigEndian.PutUint32(frame[len(InvocationMagic):], uint32(size))
	_, err := w.Write(frame)
	return err
}

// readFields receives the rest of a message. What a newer other side adds at the end is ignored.
func readFields(r io.Reader, n int) ([]string, error) {
	data, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	fields := make([]string, 0, n)
	for len(fields) < n {
		if len(data) < 4 {
			return nil, errFewFields
		}
		size := binary.BigEndian.Uint32(data)
		data = data[4:]
		if uint64(size) > uint64(len(data)) {
			return nil, errFewFields
		}
		fields = append(fields, string(data[:size]))
		data = data[size:]
	}
	return fields, nil
}

var errFewFields = errors.New("the message has too few fields")

// readFrame receives a length, and as many bytes.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, unexpected(err)
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > MaxSize {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	// What is announced need not come: memory is taken for what has come.
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, int64(size)); err != nil {
		return nil, unexpected(err)
	}
	return data.Bytes(), nil
}
