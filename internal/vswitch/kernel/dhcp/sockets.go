package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/mdlayher/packet"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// forClients accepts only packets to the DHCP client port, because the device may be busy. The
// packets begin with the IP header.
var forClients = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 9, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 6},
	bpf.LoadAbsolute{Off: 6, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 4},
	bpf.LoadMemShift{Off: 0},
	bpf.LoadIndirect{Off: 2, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nclient4.ClientPort, SkipTrue: 1},
	bpf.RetConstant{Val: 0xffff},
	bpf.RetConstant{Val: 0},
}

// ListenBroadcast opens a socket for Device.Broadcast, in the network namespace of the calling
// thread.
func ListenBroadcast(device *net.Interface) (net.PacketConn, error) {
	filter, err := bpf.Assemble(forClients)
	if err != nil {
		return nil, err
	}
	conn, err := packet.Listen(device, packet.Datagram, unix.ETH_P_IP, &packet.Config{Filter: filter})
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket on device %s: %w", device.Name, err)
	}
	return nclient4.NewBroadcastUDPConn(conn, &net.UDPAddr{Port: nclient4.ClientPort}), nil
}

// ListenUnicast opens a socket for Device.Unicast, in the network namespace of the calling thread.
func ListenUnicast(device string, from netip.Addr) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var bound error
		err := c.Control(func(fd uintptr) {
			// Another client of the host may serve another device.
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			bound = unix.BindToDevice(int(fd), device)
		})
		if err != nil {
			return err
		}
		return bound
	}}
	conn, err := config.ListenPacket(context.Background(), "udp4", netip.AddrPortFrom(from, nclient4.ClientPort).String())
	if err != nil {
		return nil, fmt.Errorf("opening a socket on device %s: %w", device, err)
	}
	return conn, nil
}
