package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// Skew is the tolerated difference of clocks.
	Skew = time.Hour
	// AuthorityLife is how long an authority may sign.
	AuthorityLife = 10 * 365 * 24 * time.Hour
)

// Pair is a certificate and its key in PEM.
type Pair struct {
	Cert, Key []byte
}

// Authority signs certificates. It is safe for concurrent use.
type Authority struct {
	pem  Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority returns an authority with a new key.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-Skew),
		NotAfter:              now.Add(AuthorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority %s: %w", name, err)
	}
	return LoadAuthority(Pair{encode("CERTIFICATE", der), keyPEM})
}

// LoadAuthority returns the authority of a pair returned by Pair.
func LoadAuthority(pair Pair) (*Authority, error) {
	cert, err := ParseCertificate(pair.Cert)
	if err != nil {
		return nil, fmt.Errorf("certificate of the authority: %w", err)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("certificate of the authority: %s may not sign", cert.Subject)
	}
	block, _ := pem.Decode(pair.Key)
	if block == nil {
		return nil, errors.New("key of the authority: it is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key of the authority: %w", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("key of the authority: it is a %T, which cannot sign", parsed)
	}
	if public, ok := key.Public().(*ecdsa.PublicKey); !ok || !public.Equal(cert.PublicKey) {
		return nil, errors.New("key of the authority does not match its certificate")
	}
	return &Authority{pair, cert, key}, nil
}

// Pair returns the certificate and key of the authority. The key allows impersonating any client or
// server.
func (a *Authority) Pair() Pair { return a.pem }

// Pool returns a pool with the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// IssueClient returns a new key and certificate of a client. user is the common name.
func (a *Authority) IssueClient(user string, now time.Time, life time.Duration) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	cert, err := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: user}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key.Public(), now, life)
	return Pair{cert, keyPEM}, err
}

// IssueServer returns a new key and certificate of a server. The first name is the common name.
func (a *Authority) IssueServer(names []string, addresses []netip.Addr, now time.Time, life time.Duration) (Pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		// etcd's server connects to itself as a client.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.AsSlice()))
	}
	cert, err := a.sign(template, key.Public(), now, life)
	return Pair{cert, keyPEM}, err
}

// SignClient signs the key of a certificate request in PEM. Everything else in the request is
// ignored; user is the common name.
func (a *Authority) SignClient(request []byte, user string, now time.Time, life time.Duration) ([]byte, error) {
	r, err := ParseRequest(request)
	if err != nil {
		return nil, err
	}
	return a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: user}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, r.PublicKey, now, life)
}

func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey, now time.Time, life time.Duration) ([]byte, error) {
	template.SerialNumber = serial()
	template.NotBefore = now.Add(-Skew)
	template.NotAfter = now.Add(life)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate of %s: %w", template.Subject.CommonName, err)
	}
	return encode("CERTIFICATE", der), nil
}

// Signed reports whether the authority signed the certificate.
func (a *Authority) Signed(cert *x509.Certificate) bool {
	return cert.CheckSignatureFrom(a.cert) == nil
}

// Covers reports whether the certificate has exactly these names and addresses.
func Covers(cert *x509.Certificate, names []string, addresses []netip.Addr) bool {
	var have []netip.Addr
	for _, ip := range cert.IPAddresses {
		a, _ := netip.AddrFromSlice(ip)
		have = append(have, a.Unmap())
	}
	wanted := slices.Clone(addresses)
	slices.SortFunc(have, netip.Addr.Compare)
	slices.SortFunc(wanted, netip.Addr.Compare)
	return slices.Equal(have, wanted) && slices.Equal(cert.DNSNames, names)
}

// Due returns when the certificate must be renewed: after half of its life.
func Due(cert *x509.Certificate) time.Time {
	signed := cert.NotBefore.Add(Skew)
	return signed.Add(cert.NotAfter.Sub(signed) / 2)
}

// Request is a new key and its certificate request in PEM.
type Request struct {
	PEM, Key []byte
}

// NewRequest returns a new key and a certificate request for a user.
func NewRequest(user string, organizationalUnits ...string) (Request, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return Request{}, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, OrganizationalUnit: organizationalUnits},
	}, key)
	if err != nil {
		return Request{}, fmt.Errorf("request a certificate of %s: %w", user, err)
	}
	return Request{encode("CERTIFICATE REQUEST", der), keyPEM}, nil
}

// ParseRequest parses a certificate request in PEM, and checks that its author has the key.
func ParseRequest(request []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("certificate request: it is not PEM")
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	return r, nil
}

// ParseCertificate returns the first certificate in PEM data.

func ParseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is not a PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	return key, encode("PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// serial returns a random number of 127 bits.
func serial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return n
}
