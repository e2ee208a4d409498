package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"time"
)

// Endpoint is a place in the lab that sends and receives packets.
type Endpoint struct {
	// Name is a pod's ID, a node's name, or "outside".
	Name string
	Kind EndpointKind
	// Node is the node of the endpoint, "" for the outside host.
	Node    string
	Netns   string
	Address netip.Addr
}

// EndpointKind distinguishes pods, nodes and the outside host.
type EndpointKind string

const (
	PodEndpoint     EndpointKind = "pod"
	NodeEndpoint    EndpointKind = "node"
	OutsideEndpoint EndpointKind = "outside"
)

// OutsideName is the name of the host outside of the cluster.
const OutsideName = "outside"

// Endpoints returns the nodes, the pods with an address and the outside host.
func (s *State) Endpoints() []Endpoint {
	var all []Endpoint
	for _, n := range s.Nodes {
		all = append(all, n.Endpoint())
	}
	for _, p := range s.Pods {
		if p.Address.IsValid() {
			all = append(all, p.Endpoint())
		}
	}
	return append(all, Endpoint{OutsideName, OutsideEndpoint, "", s.Outside(), s.families(OutsideAddress, outsideAddress6)[0].Addr()})
}

// Endpoint returns the endpoint of the node.
func (n Node) Endpoint() Endpoint {
	return Endpoint{n.Name, NodeEndpoint, n.Name, n.Netns, n.Address.Addr()}
}

// Endpoint returns the endpoint of the pod.
func (p Pod) Endpoint() Endpoint { return Endpoint{p.ID(), PodEndpoint, p.Node, p.Netns, p.Address} }

func (s *State) overIPv6(e Endpoint) (Endpoint, error) {
	switch e.Kind {
	case OutsideEndpoint:
		e.Address = outsideAddress6.Addr()
	case NodeEndpoint:
		n, err := s.Node(e.Node)
		if err != nil {
			return e, err
		}
		e.Address = n.Address6.Addr()
	case PodEndpoint:
		p, err := s.Pod(e.Name)
		if err != nil {
			return e, err
		}
		e.Address = p.Address6
	}
	return e, nil
}

// Endpoint returns the endpoint of a pod, a node or the outside host.
func (s *State) Endpoint(name string) (Endpoint, error) {
	if pod, err := s.Pod(name); err == nil {
		return pod.Endpoint(), nil
	}
	var names []string
	for _, e := range s.Endpoints() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Endpoint{}, nameError("lab %s has no pod and no node %q%s; %s lists them", s.Name, name, didYouMean(name, names), Command(s.Name, "status"))
}

// Exec runs a command in a pod, a node or the outside host, and returns its output.
func (l *Lab) Exec(ctx context.Context, where, name string, args ...string) (string, error) {
	st, err := l.State()
	if err != nil {
		return "", err
	}
	e, err := st.Endpoint(where)
	if err != nil {
		return "", err
	}
	out, err := execIn(ctx, e.Netns, name, args...)
	if err != nil {
		return string(out), fmt.Errorf("in %s: %w", where, err)
	}
	return string(out), nil
}

var pingTimes = regexp.MustCompile(`(?m)^rtt min/avg/max/mdev = ([0-9.]+)/`)

// Ping sends three ICMP echo requests with ping(8) and returns the shortest round trip. It fails if
// a reply is missing.
func Ping(ctx context.Context, from, to Endpoint) (time.Duration, error) {
	out, err := execIn(ctx, from.Netns, "ping", "-n", "-q", "-c3", "-i0.02", "-W1", to.Address.String())
	if err != nil {
		return 0, errors.New(pingFailure(string(out), err))
	}
	m := pingTimes.FindStringSubmatch(string(out))
	if m == nil {
		return 0, fmt.Errorf("unexpected output of ping: %s", out)
	}
	ms, err := strconv.ParseFloat(m[1], 64)
	return time.Duration(ms * float64(time.Millisecond)), err
}

var pingSummary = regexp.MustCompile(`(?m)^\d+ packets transmitted.*$`)

func pingFailure(output string, err error) string {
	if summary := pingSummary.FindString(output); summary != "" {
		return summary
	}
	return err.Error()
}

// TCPPayload is the number of bytes of an echo. It exceeds a few packets, so that a wrong MTU is
// detected.
const TCPPayload = 64 << 10

// tcpServer sends 16 bytes with the client's address and then echoes the client's data.
type tcpServer struct {
	listener net.Listener
	address  string
	err      error
}

// serveTCP starts a server at the endpoint; the caller must close it. If it cannot listen, e.g.
// because the endpoint has lost its address, probeTCP returns the error.
func serveTCP(e Endpoint) *tcpServer {
	s := &tcpServer{}
	s.err = InNetns(NetnsPath(e.Netns), func() (err error) {
		s.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", netip.AddrPortFrom(e.Address, 0).String())
		return err
	})
	if s.err != nil {
		s.err = fmt.Errorf("listening in %s: %w", e.Name, s.err)
		return s
	}
	s.address = s.listener.Addr().String()
	go s.accept()
	return s
}

func (s *tcpServer) close() {
	if s.err == nil {
		s.listener.Close()
	}
}

func (s *tcpServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(5 * time.Second))
			client := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap().As16()
			if _, err := conn.Write(client[:]); err == nil {
				io.CopyN(conn, conn, TCPPayload)
			}
		}()
	}
}

// probeTCP connects to a server and exchanges data in both directions. It returns the duration of
// the handshake, which is one round trip, and the client address that the server saw.
func probeTCP(ctx context.Context, from Endpoint, server *tcpServer) (rtt time.Duration, source netip.Addr, err error) {
	if server.err != nil {
		return 0, netip.Addr{}, server.err
	}
	var conn net.Conn
	err = InNetns(NetnsPath(from.Netns), func() error {
		start := time.Now()
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", server.address)
		rtt = time.Since(start)
		return err
	})
	if err != nil {
		return 0, netip.Addr{}, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	var client [16]byte
	if _, err := io.ReadFull(conn, client[:]); err != nil {
		return 0, netip.Addr{}, fmt.Errorf("connected, but no data came back: %w", err)
	}
	sent := make([]byte, TCPPayload)
	for i := range len(sent) / 4 {
		binary.BigEndian.PutUint32(sent[4*i:], uint32(i))
	}
	writing := make(chan error, 1)
	go func() { _, err := conn.Write(sent); writing <- err }()
	got := make([]byte, len(sent))
	n, err := io.ReadFull(conn, got)
	if err == nil {
		err = <-writing
	} else {
		conn.Close()
		<-writing
	}
	if err != nil {
		return 0, netip.Addr{}, fmt.Errorf("connected, but only %d of %d bytes came back: %w", n, len(sent), err)
	}
	if string(sent) != string(got) {
		return 0, netip.Addr{}, errors.New("the received bytes differ from the sent ones")
	}
	return rtt, netip.AddrFrom16(client).Unmap(), nil
}

func dialIn(ctx context.Context, netns, network, address string) (conn net.Conn, err error) {
	err = InNetns(netns, func() error {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
