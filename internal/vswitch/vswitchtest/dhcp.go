package vswitchtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/server4"
)

// DHCPServer leases addresses to clients on a device.
type DHCPServer struct {
	host   *Host
	device string
	self   netip.Addr

	mu      sync.Mutex
	conn    net.PacketConn // nil if the server is down
	done    chan struct{}
	offer   DHCPOffer
	seen    []dhcpv4.MessageType
	changed chan struct{} // closed when seen grows
}

// DHCPOffer is the lease that a server offers.
type DHCPOffer struct {
	Address netip.Prefix
	Router  netip.Addr // the zero Addr for none
	Length  time.Duration
	// Renew and Rebind are the times T1 and T2; zero leaves them to the client.
	Renew, Rebind time.Duration
	// Mute makes the server ignore all messages.
	Mute bool
	// Lost is the number of DISCOVER messages to ignore.
	Lost   int
	Routes []*dhcpv4.Route
}

// NewDHCPServer returns a stopped server on a device of host, with the server address self.
func NewDHCPServer(t testing.TB, host *Host, device string, self netip.Addr) *DHCPServer {
	s := &DHCPServer{host: host, device: device, self: self, changed: make(chan struct{})}
	t.Cleanup(s.Down)
	return s
}

// Up starts the server, or changes its offer. It then rejects renewals of other addresses.
func (s *DHCPServer) Up(t testing.TB, offer DHCPOffer) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offer = offer
	if s.conn != nil {
		return
	}
	var conn net.PacketConn
	err := s.host.in(func() (err error) {
		conn, err = server4.NewIPv4UDPConn(s.device, &net.UDPAddr{Port: dhcpv4.ServerPort})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.conn, s.done = conn, make(chan struct{})
	go s.serve(conn, s.done)
}

// Down stops the server if it runs.
func (s *DHCPServer) Down() {
	s.mu.Lock()
	conn, done := s.conn, s.done
	s.conn = nil
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
		<-done
	}
}

// Seen returns the types of the received messages.
func (s *DHCPServer) Seen() []dhcpv4.MessageType {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Await waits until a message of the type arrives, ignoring the first after messages.
func (s *DHCPServer) Await(ctx context.Context, typ dhcpv4.MessageType, after int) error {
	for {
		s.mu.Lock()
		found := slices.Contains(s.seen[min(after, len(s.seen)):], typ)
		changed := s.changed
		s.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("no %v has come: %w; so far %v", typ, ctx.Err(), s.Seen())
		}
	}
}

func (s *DHCPServer) serve(conn net.PacketConn, done chan struct{}) {
	defer close(done)
	buffer := make([]byte, 4096)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		request, err := dhcpv4.FromBytes(buffer[:max(n, 0)])
		if err != nil {
			continue
		}
		s.mu.Lock()
		if request.MessageType() == dhcpv4.MessageTypeDiscover && s.offer.Lost > 0 {
			s.offer.Lost--
			s.mu.Unlock()
			continue
		}
		s.seen = append(s.seen, request.MessageType())
		close(s.changed)
		s.changed = make(chan struct{})
		reply := s.reply(request)
		s.mu.Unlock()
		if reply == nil {
			continue
		}
		to := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ClientPort}
		if !request.ClientIPAddr.IsUnspecified() && reply.MessageType() != dhcpv4.MessageTypeNak {
			to.IP = request.ClientIPAddr
		}
		_, _ = conn.WriteTo(reply.ToBytes(), to)
	}
}

func (s *DHCPServer) reply(request *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	if s.offer.Mute {
		return nil
	}
	typ := dhcpv4.MessageTypeAck
	switch request.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		typ = dhcpv4.MessageTypeOffer
	case dhcpv4.MessageTypeRequest:
		asked := request.RequestedIPAddress()
		if asked == nil {
			asked = request.ClientIPAddr
		}
		if addr, _ := netip.AddrFromSlice(asked.To4()); addr != s.offer.Address.Addr() {
			typ = dhcpv4.MessageTypeNak
		}
	default:
		return nil
	}
	modifiers := []dhcpv4.Modifier{dhcpv4.WithMessageType(typ), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(s.self.AsSlice()))}
	if typ != dhcpv4.MessageTypeNak {
		modifiers = append(modifiers,
			dhcpv4.WithYourIP(s.offer.Address.Addr().AsSlice()),
			dhcpv4.WithNetmask(net.CIDRMask(s.offer.Address.Bits(), 32)),
			dhcpv4.WithOption(dhcpv4.OptIPAddressLeaseTime(s.offer.Length)))
		if s.offer.Renew > 0 {
			modifiers = append(modifiers,
				dhcpv4.WithOption(dhcpv4.OptRenewTimeValue(s.offer.Renew)), dhcpv4.WithOption(dhcpv4.OptRebindingTimeValue(s.offer.Rebind)))
		}
		if s.offer.Router.IsValid() {
			modifiers = append(modifiers, dhcpv4.WithRouter(s.offer.Router.AsSlice()))
		}
		if len(s.offer.Routes) > 0 {
			modifiers = append(modifiers, dhcpv4.WithOption(dhcpv4.OptClasslessStaticRoute(s.offer.Routes...)))
		}
	}
	reply, err := dhcpv4.NewReplyFromRequest(request, modifiers...)
	if err != nil {
		return nil
	}
	return reply
}
