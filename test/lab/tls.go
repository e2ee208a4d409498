package lab

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/contiv/contiv/ksr/access"
	"github.com/contiv/contiv/pki"
)

// certificateLife of a lab's certificates, which nobody renews.
const certificateLife = 365 * 24 * time.Hour

// Whose certificates are in the directory pki of a lab with TLS: the authority, etcd's server, KSR, who may do
// everything, and nodes.
//
//	ca ─┬─> etcd
//	    ├─> root        KSR, and who configures the lab from outside
//	    └─> node:node1  the agent of node1: reads the cluster's state, writes its own keys
const (
	authorityName = "ca"
	serverName    = "etcd"
)

func (l *Lab) certificate(name string) (cert, key string) {
	return l.Path("pki", name+".crt"), l.Path("pki", name+".key")
}

// makeAuthority makes the certificates that a lab has before its nodes.
func (l *Lab) makeAuthority() error {
	if err := os.Mkdir(l.Path("pki"), 0o700); err != nil {
		return err
	}
	authority, err := pki.NewAuthority("contiv-lab "+l.opts.Name, time.Now())
	if err != nil {
		return err
	}
	server, err := authority.IssueServer([]string{"contiv-etcd"}, []netip.Addr{RouterAddress.Addr()}, time.Now(), certificateLife)
	if err != nil {
		return err
	}
	if err := errors.Join(l.writePair(authorityName, authority.Pair()), l.writePair(serverName, server)); err != nil {
		return err
	}
	return l.issue(access.Root)
}

// issue makes the certificate of a user of etcd, if there is none yet.
func (l *Lab) issue(user string) error {
	cert, _ := l.certificate(user)
	if _, err := os.Stat(cert); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var signer pki.Pair
	cert, key := l.certificate(authorityName)
	var err1, err2 error
	signer.Cert, err1 = os.ReadFile(cert)
	signer.Key, err2 = os.ReadFile(key)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	authority, err := pki.LoadAuthority(signer)
	if err != nil {
		return err
	}
	pair, err := authority.IssueClient(user, time.Now(), certificateLife)
	if err != nil {
		return err
	}
	return l.writePair(user, pair)
}

func (l *Lab) writePair(name string, pair pki.Pair) error {
	cert, key := l.certificate(name)
	if err := os.WriteFile(key, pair.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(cert, pair.Cert, 0o600)
}

// etcdURL is where etcd listens, in the namespace of the underlay.
func (s *State) etcdURL() string {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, etcdAddress)
}

// tlsOf returns how a user of etcd connects; nil in a lab without TLS.
func (l *Lab) tlsOf(st *State, user string) (*tls.Config, error) {
	if !st.TLS {
		return nil, nil
	}
	authority, _ := l.certificate(authorityName)
	data, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	ca, err := pki.ParseCertificate(data)
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(l.certificate(user))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: "contiv-etcd"}, nil
}

// etcdFlags are the agent's, by which it reaches etcd.
func (l *Lab) etcdFlags(st *State, node string) ([]string, error) {
	flags := []string{"--etcd-endpoints", st.etcdURL()}
	if !st.TLS {
		return flags, nil
	}
	user := access.NodeUser + node
	if err := l.issue(user); err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", node, err)
	}
	authority, _ := l.certificate(authorityName)
	cert, key := l.certificate(user)
	return append(flags, "--etcd-ca-file", authority, "--etcd-cert-file", cert, "--etcd-key-file", key), nil
}
