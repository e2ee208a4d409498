// Package listenertest creates certificates for tests of TLS listeners.
package listenertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority with files in the test's temporary directory.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	template := template("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	a.cert, a.key = template, newKey(t)
	der := a.sign(template, a.key)
	a.write("ca.crt", "CERTIFICATE", der)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.cert = cert
	return a
}

// CAFile returns the path of the authority's certificate.
func (a *Authority) CAFile() string { return filepath.Join(a.dir, "ca.crt") }

// Issue creates a certificate for servers on loopback and for clients, and returns the paths of
// certificate and key. Organizations grant roles: "contiv:read", "contiv:configure". A second call
// with the same name replaces the files.
func (a *Authority) Issue(name string, organizations ...string) (cert, key string) {
	a.t.Helper()
	private := newKey(a.t)
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	cert = a.write(name+".crt", "CERTIFICATE", a.sign(template(name, organizations...), private))
	return cert, a.write(name+".key", "EC PRIVATE KEY", der)
}

// Client returns the TLS configuration of a client that trusts the authority, with a certificate
// unless the name is "".
func (a *Authority) Client(name string, organizations ...string) *tls.Config {
	a.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	config := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	if name != "" {
		cert, err := tls.LoadX509KeyPair(a.Issue(name, organizations...))
		if err != nil {
			a.t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config
}

func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *Authority) write(file, kind string, der []byte) (path string) {
	a.t.Helper()
	path = filepath.Join(a.dir, file)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func template(name string, organizations ...string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: organizations},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}
