package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
)

var loopback = netip.MustParseAddr("127.0.0.1")

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority("ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func keyPair(t *testing.T, p pki.Pair, err error) tls.Certificate {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// handshake returns the common name of the client as seen by the server.
func handshake(t *testing.T, server, client *tls.Config) (string, error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type result struct {
		name string
		err  error
	}
	served := make(chan result, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			served <- result{"", err}
			return
		}
		defer conn.Close()
		s := conn.(*tls.Conn)
		if err := s.HandshakeContext(t.Context()); err != nil {
			served <- result{"", err}
			return
		}
		served <- result{s.ConnectionState().PeerCertificates[0].Subject.CommonName, nil}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		defer c.Close()
	}
	r := <-served
	return r.name, errors.Join(err, r.err)
}

func TestCertificatesWork(t *testing.T) {
	made := authority(t)
	a, err := pki.LoadAuthority(made.Pair()) // as after a restart
	if err != nil {
		t.Fatal(err)
	}
	serverPair, err := made.IssueServer([]string{"contiv-etcd", "localhost"}, []netip.Addr{loopback}, time.Now(), time.Hour)
	server := keyPair(t, serverPair, err)
	clientPair, err := a.IssueClient("node:n1", time.Now(), time.Hour)
	client := keyPair(t, clientPair, err)
	strangerPair, err := authority(t).IssueClient("node:n1", time.Now(), time.Hour)
	stranger := keyPair(t, strangerPair, err)
	old, err := a.IssueClient("node:n1", time.Now().Add(-2*time.Hour), time.Hour)
	expired := keyPair(t, old, err)
	early, err := a.IssueClient("node:n1", time.Now().Add(pki.Skew/2), time.Hour) // by a clock that is ahead
	skewed := keyPair(t, early, err)
	serverConfig := &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: a.Pool(), ClientAuth: tls.RequireAndVerifyClientCert}
	for name, test := range map[string]struct {
		cert       tls.Certificate
		serverName string
		works      bool
	}{
		"name":              {client, "contiv-etcd", true},
		"address":           {client, "127.0.0.1", true},
		"clock ahead":       {skewed, "localhost", true},
		"other name":        {client, "etcd", false},
		"other authority":   {stranger, "contiv-etcd", false},
		"expired":           {expired, "contiv-etcd", false},
		"server as client":  {server, "contiv-etcd", true}, // etcd connects to itself
		"nothing presented": {tls.Certificate{}, "contiv-etcd", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := handshake(t, serverConfig, &tls.Config{Certificates: []tls.Certificate{test.cert}, RootCAs: a.Pool(), ServerName: test.serverName})
			if (err == nil) != test.works {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	if _, err := handshake(t, &tls.Config{Certificates: []tls.Certificate{client}}, &tls.Config{RootCAs: a.Pool(), ServerName: "node:n1"}); err == nil {
		t.Error("a client's certificate serves")
	}
}

// Only the key of a request is used.
func TestSignRequest(t *testing.T) {
	a := authority(t)
	r, err := pki.NewRequest("root", "everything")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	data, err := a.SignClient(r.PEM, "node:n1", now, 4*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(data, r.Key); err != nil {
		t.Error(err)
	}
	cert, err := pki.ParseCertificate(data)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.String() != "CN=node:n1" || cert.IsCA || len(cert.DNSNames)+len(cert.IPAddresses) > 0 || len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("subject %s, usage %v", cert.Subject, cert.ExtKeyUsage)
	}
	if due := pki.Due(cert).Sub(now); due < 2*time.Hour-time.Minute || due > 2*time.Hour+time.Minute {
		t.Errorf("due after %s", due)
	}
	if !a.Signed(cert) || authority(t).Signed(cert) {
		t.Error("signed by another authority")
	}
	for name, request := range map[string][]byte{"nothing": nil, "no PEM": []byte("x"), "a certificate": data, "a key": r.Key} {
		if _, err := a.SignClient(request, "x", now, time.Hour); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
}

func TestLoadAuthorityRefuses(t *testing.T) {
	a, b := authority(t).Pair(), authority(t).Pair()
	leaf, err := authority(t).IssueClient("x", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]pki.Pair{
		"nothing": {}, "no key": {Cert: a.Cert}, "another's key": {Cert: a.Cert, Key: b.Key}, "a client's": leaf, "the wrong way round": {Cert: a.Key, Key: a.Cert},
	} {
		if _, err := pki.LoadAuthority(p); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

func TestCovers(t *testing.T) {
	names, addresses := []string{"a", "b"}, []netip.Addr{loopback, netip.MustParseAddr("fd00::1")}
	p, err := authority(t).IssueServer(names, addresses, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if !pki.Covers(cert, names, []netip.Addr{addresses[1], addresses[0]}) || pki.Covers(cert, names, addresses[:1]) || pki.Covers(cert, names[:1], addresses) {
		t.Error("names or addresses are not compared")
	}
}
