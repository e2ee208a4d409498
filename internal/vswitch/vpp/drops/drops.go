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

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	interfaces "go.fd.io/govpp/binapi/interface"
)

var module = session.NewModule("", "captures",
	&interfaces.PcapTraceOn{}, &interfaces.PcapTraceOnReply{}, &interfaces.PcapTraceOff{}, &interfaces.PcapTraceOffReply{})

const (
	// maxPackets bounds the packets captured between two reads, maxBytes the bytes of each, which
	// include the text that VPP appends.
	maxPackets, maxBytes = 200, 4096
	// directory is VPP's directory for captures; filePrefix starts the names of ours.
	directory, filePrefix = "/tmp", "contiv-drops-"
)

// Capture is VPP's capture of dropped packets. It is not safe for concurrent use.
type Capture struct {
	subsystem.Base
	vpp *session.Session
	// file is the present capture's file; "" if none is known.
	file string
}

// New returns a capture that is off.
func New(vpp *session.Session) *Capture {
	return &Capture{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp}
}

// Start starts the capture unless it runs.
func (c *Capture) Start(ctx context.Context) error {
	if c.file != "" {
		return nil
	}
	file := filePrefix + rand.Text()
	on := &interfaces.PcapTraceOn{CaptureDrop: true, MaxPackets: maxPackets, MaxBytesPerPacket: maxBytes, Filename: file}
	err := c.vpp.Call(ctx, module, on, &interfaces.PcapTraceOnReply{})
	if vppapi.Refused(err, api.INVALID_VALUE) { // a capture runs: left by an earlier agent?
		var ours bool
		if ours, err = c.captures(ctx, filePrefix); err == nil && !ours {
			return errors.New("another packet capture is running: stop it with vppctl pcap trace off")
		}
		if err == nil {
			_, err = c.off(ctx)
		}
		if err == nil {
			err = c.vpp.Call(ctx, module, on, &interfaces.PcapTraceOnReply{})
		}
	}
	if err != nil {
		return fmt.Errorf("starting VPP's capture of dropped packets: %w", err)
	}
	c.file = file
	return nil
}

// captures reports whether a capture to a file with the prefix runs.
func (c *Capture) captures(ctx context.Context, file string) (bool, error) {
	status, err := c.vpp.CLI(ctx, "pcap trace status")
	return strings.Contains(status, "file "+directory+"/"+file), err
}

// off ends a capture. VPP writes the file if it has packets.
func (c *Capture) off(ctx context.Context) (written bool, err error) {
	err = c.vpp.Call(ctx, module, &interfaces.PcapTraceOff{}, &interfaces.PcapTraceOffReply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) || vppapi.Refused(err, api.VALUE_EXIST) { // no packets; no capture
		return false, nil
	}
	return err == nil, err
}

// Stop ends the capture and returns its frames. VPP appends "node: reason" to most of them.
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
		return nil, fmt.Errorf("stopping VPP's capture of dropped packets: %w", err)
	}
	if !written {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading VPP's capture of dropped packets: %w: run VPP and the agent with a common %s, as contiv-init does", err, directory)
	}
	return frames(data), nil
}

// Sizes of the headers of a capture and of its packets.
const fileHeader, packetHeader = 24, 16

// frames returns the packets of a capture in host byte order; of a truncated one, the complete
// packets.
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
