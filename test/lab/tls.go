package lab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/kubernetes/ksr/credentials"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// certificateLife is the validity of a lab's certificates, which are never renewed.
const certificateLife = 365 * 24 * time.Hour

// Certificates in the directory pki of a lab:
//
//	ca ─┬─> etcd
//	    ├─> root        KSR and the lab itself, with full access
//	    ├─> node:node1  the agent of node1: reads the cluster's state, writes its own keys
//	    └─> client:ops  clients that configure nodes: see Credentials, in a directory of their choice
const (
	authorityName = "ca"
	serverName    = "etcd"
)

func (l *Lab) certificate(name string) (cert, key string) {
	return l.Path("pki", name+".crt"), l.Path("pki", name+".key")
}

func (l *Lab) makeAuthority(st *State) error {
	if err := os.Mkdir(l.Path("pki"), 0o700); err != nil {
		return err
	}
	authority, err := pki.NewAuthority("contiv-lab "+l.opts.Name, time.Now())
	if err != nil {
		return err
	}
	server, err := authority.IssueServer([]string{"contiv-etcd"}, []netip.Addr{st.router()}, time.Now(), certificateLife)
	if err != nil {
		return err
	}
	if err := errors.Join(l.writePair(authorityName, authority.Pair()), l.writePair(serverName, server)); err != nil {
		return err
	}
	return l.issue(access.Root)
}

func (l *Lab) issue(user string) error {
	cert, _ := l.certificate(user)
	if _, err := os.Stat(cert); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	authority, err := l.authority()
	if err != nil {
		return err
	}
	pair, err := authority.IssueClient(user, time.Now(), certificateLife)
	if err != nil {
		return err
	}
	return l.writePair(user, pair)
}

func (l *Lab) authority() (*pki.Authority, error) {
	cert, key := l.certificate(authorityName)
	var signer pki.Pair
	var err1, err2 error
	signer.Cert, err1 = os.ReadFile(cert)
	signer.Key, err2 = os.ReadFile(key)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return pki.LoadAuthority(signer)
}

// Credentials creates a certificate for a client that configures nodes through etcd, and waits
// until etcd knows the client. The directory has the same files as that of contivctl credentials.
func (l *Lab) Credentials(ctx context.Context, name string, client access.Client, dir string) (hint string, err error) {
	if err := access.CheckClient(name, client); err != nil {
		return "", err
	}
	err = l.change(ctx, func(st *State) error {
		for _, node := range client.Nodes {
			if _, err := st.Node(node); err != nil && node != access.AllNodes {
				return fmt.Errorf("--node: %w", err)
			}
		}
		if !st.users() {
			return fmt.Errorf("lab %s has no users of etcd, because it was created with --plain-text or --calico", st.Name)
		}
		authority, err := l.authority()
		if err != nil {
			return err
		}
		pair, err := authority.IssueClient(access.ClientUser+name, time.Now(), certificateLife)
		if err != nil {
			return err
		}
		if err := l.admit(ctx, st, name, client); err != nil {
			return err
		}
		hint, err = credentials.Credentials{Pair: pair, Authority: authority.Pair().Cert}.WriteClient(dir, st.etcdURL())
		return err
	})
	return hint, err
}

// admit records the client and waits until KSR has made it an etcd user.
func (l *Lab) admit(ctx context.Context, st *State, name string, client access.Client) error {
	if err := st.etcdRuns(); err != nil {
		return err
	}
	c, err := l.Etcd()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Put(ctx, access.ClientPrefix+name, string(client.Marshal())); err != nil {
		return fmt.Errorf("record client %s in etcd: %w", name, err)
	}
	return l.awaitUser(ctx, st, c, access.ClientUser+name)
}

// awaitNodeUser waits until etcd knows the node. An earlier agent would be rejected and retry only
// after a second.
func (l *Lab) awaitNodeUser(ctx context.Context, st *State, n Node) error {
	if !st.users() {
		return nil
	}
	c, err := l.Etcd()
	if err != nil {
		return err
	}
	defer c.Close()
	return l.awaitUser(ctx, st, c, access.NodeUser+n.Name)
}

func (l *Lab) awaitUser(ctx context.Context, st *State, etcd *clientv3.Client, name string) error {
	return l.await(ctx, "user "+name+" of etcd", st.Processes[ksrRole], func(ctx context.Context) error {
		user, err := etcd.UserGet(ctx, name)
		if err == nil && len(user.Roles) == 0 {
			err = errors.New("it has no role yet")
		}
		return err
	})
}

func (l *Lab) writePair(name string, pair pki.Pair) error {
	cert, key := l.certificate(name)
	if err := os.WriteFile(key, pair.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(cert, pair.Cert, 0o600)
}

func (s *State) etcdURL() string {
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, s.etcdAddress())
}

// users reports whether etcd enforces roles. A lab with Calico has no KSR to create them, so each
// certificate gives full access.
func (s *State) users() bool { return s.TLS && !s.Calico }

// tlsOf returns the TLS configuration of an etcd user, nil in a lab with PlainText.
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
