package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

var errRefused = errors.New("the server refuses the address")

var wanted = dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionRouter,
	dhcpv4.OptionHostName, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue)

// broadcast opens the socket of a device without address. A socket lives for one exchange, because
// one that lost its device never works again.
func (c *Client) broadcast(timeout time.Duration) (*nclient4.Client, net.HardwareAddr, error) {
	conn, mac, err := c.device.Broadcast()
	if err != nil {
		return nil, nil, err
	}
	client, err := nclient4.NewWithConn(conn, mac, nclient4.WithTimeout(timeout), nclient4.WithRetry(1))
	if err != nil {
		conn.Close()
	}
	return client, mac, err
}

func (c *Client) discover(ctx context.Context, timeout time.Duration) (*Lease, error) {
	client, _, err := c.broadcast(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	offer, err := client.DiscoverOffer(ctx, wanted)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	granted, err := client.RequestFromOffer(ctx, offer, wanted)
	if err != nil {
		return nil, err
	}
	return leaseOf(granted.ACK, sent)
}

// reboot requests the address that the device has from an earlier process.
func (c *Client) reboot(ctx context.Context, addr netip.Addr, timeout time.Duration) (*Lease, error) {
	client, mac, err := c.broadcast(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return request(ctx, client, client.RemoteAddr(), dhcpv4.WithHwAddr(mac),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(addr.AsSlice())))
}

func (c *Client) rebind(ctx context.Context, l *Lease, timeout time.Duration) (*Lease, error) {
	client, mac, err := c.broadcast(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return request(ctx, client, client.RemoteAddr(), dhcpv4.WithHwAddr(mac), dhcpv4.WithClientIP(l.Address.Addr().AsSlice()))
}

// renew requests an extension from the lease's server, which may be behind a router.
func (c *Client) renew(ctx context.Context, l *Lease, timeout time.Duration) (*Lease, error) {
	client, mac, err := c.unicast(l, timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return request(ctx, client, serverAddr(l), dhcpv4.WithHwAddr(mac), dhcpv4.WithClientIP(l.Address.Addr().AsSlice()))
}

func serverAddr(l *Lease) *net.UDPAddr {
	return &net.UDPAddr{IP: l.Server.AsSlice(), Port: nclient4.ServerPort}
}

type twoConns struct {
	net.PacketConn
	sends net.PacketConn
}

func (c twoConns) WriteTo(b []byte, to net.Addr) (int, error) { return c.sends.WriteTo(b, to) }
func (c twoConns) Close() error                               { return errors.Join(c.sends.Close(), c.PacketConn.Close()) }

// unicast opens the connection to the lease's server. Servers refuse by broadcast, which the socket
// with the leased address does not receive.
func (c *Client) unicast(l *Lease, timeout time.Duration) (*nclient4.Client, net.HardwareAddr, error) {
	receives, mac, err := c.device.Broadcast()
	if err != nil {
		return nil, nil, err
	}
	sends, err := c.device.Unicast(l.Address.Addr())
	if err != nil {
		receives.Close()
		return nil, nil, err
	}
	conn := twoConns{receives, sends}
	client, err := nclient4.NewWithConn(conn, mac, nclient4.WithTimeout(timeout), nclient4.WithRetry(1))
	if err != nil {
		conn.Close()
	}
	return client, mac, err
}

func request(ctx context.Context, client *nclient4.Client, to *net.UDPAddr, modifiers ...dhcpv4.Modifier) (*Lease, error) {
	message, err := dhcpv4.New(append(modifiers, dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), wanted,
		dhcpv4.WithOption(dhcpv4.OptMaxMessageSize(nclient4.MaxMessageSize)))...)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	answer, err := client.SendAndRead(ctx, to, message, nclient4.IsMessageType(dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak))
	switch {
	case err != nil:
		return nil, err
	case answer.MessageType() == dhcpv4.MessageTypeNak:
		return nil, fmt.Errorf("%w %s", errRefused, answer.Message())
	}
	return leaseOf(answer, sent)
}

// release sends a RELEASE, which the server does not answer.
func (c *Client) release(l *Lease) error {
	if !l.Server.IsValid() {
		return nil // it expires
	}
	client, mac, err := c.unicast(l, c.timeout)
	if err != nil {
		return err
	}
	defer client.Close()
	ack, err := dhcpv4.New(dhcpv4.WithHwAddr(mac), dhcpv4.WithYourIP(l.Address.Addr().AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(l.Server.AsSlice())))
	if err != nil {
		return err
	}
	return client.Release(&nclient4.Lease{ACK: ack})
}
