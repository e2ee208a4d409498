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

// settleTime is how long a server has to refuse a client's certificate.
const settleTime = 500 * time.Millisecond

// tlsAlert is the type of TLS records with which a server complains.
const tlsAlert = 0x15

// probe says what a connection to the endpoints fails with, which the client of etcd
// keeps to itself while it tries again: refused, a certificate that is not trusted, TLS
// on one side only. It is nil if one of them can be connected to, or ctx ends.
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
		// What a client of HTTP/2 begins with; a server of TLS answers with an alert, or
		// hangs up.
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			return err
		}
		if first, err := answer(conn); err != nil || first == tlsAlert {
			return errors.New("the server hangs up: does it want TLS? Write https://, and name the certificates")
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
	if _, err := answer(secure); err != nil && !errors.Is(err, io.EOF) { // by TLS 1.3 it follows the handshake
		return fmt.Errorf("the server refuses the client certificate, or its lack: %w", err)
	}
	return nil
}

// answer reads a byte; that there is none in time is no error.
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
