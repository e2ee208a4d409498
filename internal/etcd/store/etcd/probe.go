package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"
)

// settleTime is how long to wait for a server to refuse a client's certificate.
const settleTime = 500 * time.Millisecond

// tlsAlert is the TLS record type of alerts.
const tlsAlert = 0x15

// probe returns the reason why connections to the endpoints fail, which the etcd client hides while
// it retries: refused, an untrusted certificate, or TLS on one side only. It returns nil if one
// endpoint accepts, or ctx ends.
func (s *Store) probe(ctx context.Context) error {
	var errs []error
	for _, endpoint := range s.endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" { // a socket, or without scheme
			continue
		}
		err = s.probeAddress(ctx, u.Host)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
	}
	return errors.Join(errs...)
}

func (s *Store) probeAddress(ctx context.Context, address string) error {
	conn, err := s.dialer.dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if s.tls == nil {
		// HTTP/2 connection preface. A TLS server answers with an alert, or closes the connection.
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			return err
		}
		if first, err := answer(conn); err != nil || first == tlsAlert {
			return errors.New("the server closes the connection and may require TLS: use https:// and set the certificates")
		}
		return nil
	}
	config := s.tls.Clone()
	if config.ServerName == "" {
		if host, _, err := net.SplitHostPort(address); err == nil {
			config.ServerName = host
		}
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := answer(secure); err != nil && !errors.Is(err, io.EOF) { // in TLS 1.3 the refusal follows the handshake
		return fmt.Errorf("the server refuses the client certificate or requires one: %w", err)
	}
	return nil
}

// answer reads one byte. A timeout is not an error.
func answer(conn net.Conn) (byte, error) {
	var first [1]byte
	if err := conn.SetReadDeadline(time.Now().Add(settleTime)); err != nil {
		return 0, err
	}
	_, err := conn.Read(first[:])
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return 0, nil
	}
	return first[0], err
}
