package drops

import (
	"encoding/binary"
	"fmt"
	"testing"
)

func TestFramesOfACapture(t *testing.T) {
	file := make([]byte, fileHeader)
	for _, packet := range []string{"one", "", "three"} {
		header := make([]byte, packetHeader)
		binary.NativeEndian.PutUint32(header[8:], uint32(len(packet)))
		file = append(append(file, header...), packet...)
	}
	if got := fmt.Sprintf("%s", frames(file)); got != "[one  three]" {
		t.Error(got)
	}
	for cut := range file { // truncated anywhere
		if n := len(frames(file[:cut])); n > 2 {
			t.Errorf("%d packets in %d bytes", n, cut)
		}
	}
}
