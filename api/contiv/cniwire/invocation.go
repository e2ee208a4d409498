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

// Invocation is a call as made by the runtime. contiv-cni has only parsed the agent's socket from
// it.
type Invocation struct {
	// Server is the agent's socket from the configuration.
	Server string
	// Environment variables.
	Command, ContainerID, Netns, IfName, Args, Path string
	// Timing is not empty if contiv-cni reports the duration of the call.
	Timing string
	// Stdin is the configuration.
	Stdin string
}

// Outcome is the agent's answer to an Invocation.
type Outcome struct {
	// Declined: the agent did nothing; contiv-cni must make a Call.
	Declined bool
	// Failed: contiv-cni exits with code 1.
	Failed bool
	// Stdout is the output: a result, or an error.
	Stdout string
	// Log is appended to the file LogFile.
	LogFile, Log string
	// Timing is the start of a JSON object that contiv-cni completes.
	Timing string
}

// flag encodes a bool as "" or "1".
func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}

// WriteInvocation sends an Invocation. contiv-cni has its own copy, since imports would slow its
// start.
func WriteInvocation(w io.Writer, i *Invocation) error {
	return writeFields(w, i.Server, i.Command, i.ContainerID, i.Netns, i.IfName, i.Args, i.Path, i.Timing, i.Stdin)
}

// ReadInvocationBody receives an Invocation after its InvocationMagic.
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

// writeFields sends a message in one write.
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

// readFields receives the fields of a message and ignores additional ones.
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

// readFrame receives a length and as many bytes.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, unexpected(err)
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > MaxSize {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	// Allocate memory for received data only, not for the announced length.
	var data bytes.Buffer
	if _, err := io.CopyN(&data, r, int64(size)); err != nil {
		return nil, unexpected(err)
	}
	return data.Bytes(), nil
}
