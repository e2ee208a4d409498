package drops

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces "go.fd.io/govpp/binapi/interface"
)

var module = session.NewModule("", "captures",
	&interfaces.PcapTraceOn{}, &interfaces.PcapTraceOnReply{}, &interfaces.PcapTraceOff{}, &interfaces.PcapTraceOffReply{})

const (
	// maxPackets are captured between two readings, each up to maxBytes, so that what VPP appends is there.
	maxPackets, maxBytes = 200, 4096
	// directory is where VPP writes captures, and filePrefix starts the names of ours.
	directory, filePrefix = "/tmp", "contiv-drops-"
)

// Capture is VPP's capture of what it drops. It is not safe for concurrent use.
type Capture struct {
	subsystem.Base
	vpp *session.Session
	// file is what VPP captures to; "": it does not, as far as we know.
	file string
}

// New returns a capture that is off.
func New(vpp *session.Session) *Capture {
	return &Capture{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp}
}

// Start turns the capture on, unless it is on.
func (c *Capture) Start(ctx context.Context) error {
	if c.file != "" {
		return nil
	}
	file := filePrefix + rand.Text()
	on := &interfaces.PcapTraceOn{CaptureDrop: true, MaxPackets: maxPackets, MaxBytesPerPacket: maxBytes, Filename: file}
	err := c.vpp.Call(ctx, module, on, &interfaces.PcapTraceOnReply{})
	if vppapi.Refused(err, api.INVALID_VALUE) { // there is one: that of an agent that is gone?
		var ours bool
		if ours, err = c.captures(ctx, filePrefix); err == nil && !ours {
			return errors.New("somebody else captures packets: vppctl pcap trace off ends that")
		}
		if err == nil {
			_, err = c.off(ctx)
		}
		if err == nil {
			err = c.vpp.Call(ctx, module, on, &interfaces.PcapTraceOnReply{})
		}
	}
	if err != nil {
		return fmt.Errorf("starting VPP's capture of what it drops: %w", err)
	}
	c.file = file
	return nil
}

// captures reports whether there is a capture to a file whose name starts so.
func (c *Capture) captures(ctx context.Context, file string) (bool, error) {
	status, err := c.vpp.CLI(ctx, "pcap trace status")
	return strings.Contains(status, "file "+directory+"/"+file), err
}

// off ends a capture, which writes its file if there were packets.
func (c *Capture) off(ctx context.Context) (written bool, err error) {
	err = c.vpp.Call(ctx, module, &interfaces.PcapTraceOff{}, &interfaces.PcapTraceOffReply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) || vppapi.Refused(err, api.VALUE_EXIST) { // no packets; no capture
		return false, nil
	}
	return err == nil, err
}

// Stop ends the capture and returns what it has: frames, most of them with the node that dropped
// them, and why, appended as "node: reason".
func (c *Capture) Stop(ctx context.Context) ([][]byte, error) {
	if c.file == "" {
		return nil, nil
	}
	path := filepath.Join(directory, c.file)
	c.file = ""
	defer os.Remove(path)
	if ours, err := c.captures(ctx, filepath.Base(path)); err != nil || !ours {
		return nil, err
	}
	written, err := c.off(ctx)
	if err != nil {
		return nil, fmt.Errorf("ending VPP's capture of what it drops: %w", err)
	}
	if !written {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading VPP's capture of what it drops: %w: run VPP and the agent with one %s, as contiv-init does", err, directory)
	}
	return frames(data), nil
}

// Sizes of the headers of a capture and of its packets.
const fileHeader, packetHeader = 24, 16

// frames are the packets of a capture in the byte order of this machine; of one that is cut off, those before.
func frames(data []byte) (list [][]byte) {
	for data = data[min(len(data), fileHeader):]; len(data) >= packetHeader; {
		size := binary.NativeEndian.Uint32(data[8:])
		data = data[packetHeader:]
		if uint64(size) > uint64(len(data)) {
			break
		}
		list = append(list, data[:size])
		data = data[size:]
	}
	return list
}
