package cniwire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestWriteAndRead(t *testing.T) {
	for _, call := range []Call{
		{Method: Add, TimeoutNs: 1 << 50, Request: json.RawMessage(`{"container_id":"c1"}`)},
		{Method: strings.Repeat("x", MaxSize-100), Request: json.RawMessage(`{}`)},
	} {
		var wire bytes.Buffer
		if err := Write(&wire, &call); err != nil {
			t.Fatal(err)
		}
		var got Call
		if err := Read(&wire, &got); err != nil || !reflect.DeepEqual(got, call) || wire.Len() != 0 {
			t.Errorf("got %.100v, %v; %d bytes are left", got, err, wire.Len())
		}
	}
	var nothing bytes.Buffer
	if err := Write(&nothing, strings.Repeat("x", MaxSize)); !errors.Is(err, ErrTooLarge) || nothing.Len() > 0 {
		t.Errorf("too large: %v, %d bytes written", err, nothing.Len())
	}
	if err := Read(&nothing, &Call{}); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

// Input is read or refused, and the memory used is bounded by the input received.
func FuzzRead(f *testing.F) {
	f.Add([]byte("CNI1\x00\x00\x00\x02{}"))
	f.Add([]byte("CNI1\xff\xff\xff\xff{}"))
	f.Add([]byte("CNI1\x00\x00\x00\x10{\"method\":"))
	f.Add([]byte("PRI * HTTP/2.0\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		var call Call
		if err := Read(in, &call); err == nil && (len(data) < 10 || string(data[:4]) != Magic || len(call.Request) > len(data)) {
			t.Errorf("read %+v from %q", call, data)
		}
	})
}
