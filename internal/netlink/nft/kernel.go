package nft

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Kernel is an nftables implementation: a network namespace, or package nfttest.
type Kernel interface {
	// Commit applies changes in order, all or nothing. Each message has the nfnetlink header and
	// attributes as its data.
	Commit(messages []netlink.Message) error
	// Ask sends a request with a type (NFT_MSG_GET…) and flags (NLM_F_DUMP, …), and calls each with
	// the data of every answer, which begins with the nfnetlink header.
	Ask(message, flags uint16, data []byte, each func(answer []byte)) error
	Close()
}

type sockets struct {
	ns     *namespace.Namespace
	reader *nl.SocketHandle
	writer *netlink.Conn // opened when needed
}

// Open connects to the nftables of a network namespace. Call Release on the Conn.
func Open(ns *namespace.Namespace) (*Conn, error) {
	s, err := nl.GetNetlinkSocketAt(ns.Handle, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening netlink for nftables: %w", err)
	}
	return New(&sockets{ns: ns, reader: &nl.SocketHandle{Socket: s}}), nil
}

func (s *sockets) Close() {
	s.reader.Close()
	s.closeWriter()
}

func (s *sockets) closeWriter() {
	if s.writer != nil {
		_ = s.writer.Close()
		s.writer = nil
	}
}

func (s *sockets) Ask(message, flags uint16, data []byte, each func([]byte)) error {
	req := &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: nfnlSubsysNFTables<<8 | message, Flags: unix.NLM_F_REQUEST | flags},
		Sockets:  map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: s.reader},
	}
	req.AddRawData(data)
	return req.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(answer []byte) bool {
		each(answer)
		return true
	})
}

func (s *sockets) Commit(messages []netlink.Message) error {
	err := s.openWriter()
	if err == nil {
		err = send(s.writer, messages)
	}
	if err != nil {
		s.closeWriter() // unread answers may be left
	}
	return err
}

func (s *sockets) openWriter() error {
	if s.writer != nil {
		return nil
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(s.ns.Handle)})
	if err == nil {
		s.writer = c
		err = wideBuffers(c)
	}
	if err != nil {
		return fmt.Errorf("opening netlink for nftables: %w", err)
	}
	return nil
}

// send applies messages, all or nothing. After an error the connection is unusable.
func send(c *netlink.Conn, messages []netlink.Message) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("sending a transaction to nftables: %w", err)
	}
	data, sent := encode(messages), error(nil)
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		return sent != unix.EAGAIN
	})
	if err = cmp.Or(err, sent); err != nil {
		return fmt.Errorf("sending a transaction to nftables: %w", err)
	}
	_, err = c.Receive()
	return err
}

// encode encodes messages as a batch. It allocates a buffer of the right size, which SendMessages
// of netlink.Conn grows by copying: batches may have thousands of messages.
func encode(messages []netlink.Message) []byte {
	size := 2 * (unix.NLMSG_HDRLEN + 4)
	for _, m := range messages {
		size += unix.NLMSG_HDRLEN + len(m.Data)
	}
	data := make([]byte, 0, size)
	add := func(m netlink.Message, flags netlink.HeaderFlags) {
		data = binary.NativeEndian.AppendUint32(data, uint32(unix.NLMSG_HDRLEN+len(m.Data)))
		data = binary.NativeEndian.AppendUint16(data, uint16(m.Header.Type))
		data = binary.NativeEndian.AppendUint16(data, uint16(m.Header.Flags|flags))
		data = append(data, 0, 0, 0, 0, 0, 0, 0, 0) // sequence and port: answers come in order
		data = append(data, m.Data...)              // attributes are padded
	}
	frame := func(typ netlink.HeaderType) netlink.Message {
		return netlink.Message{Header: netlink.Header{Type: typ, Flags: netlink.Request}, Data: []byte{unix.AF_UNSPEC, 0, 0, nfnlSubsysNFTables}}
	}
	// Errors are always answered, in order, and the last message is acknowledged. So the first
	// answer is the result.
	add(frame(unix.NFNL_MSG_BATCH_BEGIN), 0)
	for i, m := range messages {
		var last netlink.HeaderFlags
		if i == len(messages)-1 {
			last = netlink.Acknowledge
		}
		add(m, last)
	}
	add(frame(unix.NFNL_MSG_BATCH_END), 0)
	return data
}

func wideBuffers(c *netlink.Conn) error {
	const size = 16 << 20
	if err := c.SetWriteBuffer(size); err != nil {
		return err
	}
	return c.SetReadBuffer(size)
}
