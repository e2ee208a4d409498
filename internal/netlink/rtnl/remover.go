package rtnl

import (
	"encoding/binary"
	"errors"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// remover deletes devices. RTM_DELLINK takes tens of milliseconds, mostly after the device has
// disappeared, while the kernel waits until no CPU uses its memory. The caller need not wait for
// that:
//
//	remove ──RTM_DELLINK──> kernel: device is gone ──RTM_DELLINK (echo)──> remove returns
//	                                memory is free ──acknowledgement─────> the socket is free
//
// The echo (NLM_F_ECHO) confirms that the device and its peer are unlinked and flushed, and their
// names are free. Kernels before 6.2 send none; remove then returns with the acknowledgement.
type remover struct {
	NS netns.NsHandle
	// slots limits concurrent removals. Each has its own socket, nil until needed.
	slots   chan *nl.NetlinkSocket
	pending sync.WaitGroup
}

// MaxRemovals limits concurrent removals; more would gain little.
const MaxRemovals = 16

func newRemover(ns netns.NsHandle) *remover {
	r := &remover{NS: ns, slots: make(chan *nl.NetlinkSocket, MaxRemovals)}
	for range MaxRemovals {
		r.slots <- nil
	}
	return r
}

// close waits for the removals in progress.
func (r *remover) close() {
	r.pending.Wait()
	for range MaxRemovals {
		if s := <-r.slots; s != nil {
			s.Close()
		}
	}
}

// remove deletes a device; ENODEV if it does not exist.
func (r *remover) remove(index int) error {
	s := <-r.slots
	if s == nil {
		var err error
		if s, err = nl.GetNetlinkSocketAt(r.NS, netns.None(), unix.NETLINK_ROUTE); err != nil {
			r.slots <- nil
			return err
		}
	}
	req := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK|unix.NLM_F_ECHO)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)

	sent := make(chan error, 1)
	r.pending.Go(func() {
		err := s.Send(req) // returns when the kernel is done
		if err != nil {
			s.Close() // ends the receiver
		}
		sent <- err
	})
	gone := make(chan error, 2) // the echo, the acknowledgement
	r.pending.Go(func() {
		err := receiveRemoval(s, req.Seq, index, gone)
		if sendErr := <-sent; sendErr != nil {
			err = sendErr
		}
		if err != nil {
			gone <- err
			s.Close()
			s = nil
		}
		r.slots <- s
	})
	return <-gone
}

// receiveRemoval reads the answers to a removal, up to the acknowledgement.
func receiveRemoval(s *nl.NetlinkSocket, seq uint32, index int, gone chan<- error) error {
	for echoed := false; ; {
		messages, from, err := s.Receive()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case from.Pid != nl.PidKernel:
			continue
		}
		for _, m := range messages {
			switch {
			case m.Header.Seq != seq:
			case m.Header.Type == unix.RTM_DELLINK && !echoed && LinkIndex(m.Data) == index:
				echoed = true
				gone <- nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				if errno := -int32(binary.NativeEndian.Uint32(m.Data)); errno != 0 {
					gone <- syscall.Errno(errno)
				} else {
					gone <- nil
				}
				return nil
			}
		}
	}
}

// LinkIndex returns the index of the device of a message.
func LinkIndex(data []byte) int {
	if len(data) < unix.SizeofIfInfomsg {
		return 0
	}
	return int(int32(binary.NativeEndian.Uint32(data[4:8])))
}
