package signer

import (
	"crypto/tls"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
)

// ownCertificate is KSR's own certificate. It is created on demand and not stored.
type ownCertificate struct {
	mu   sync.Mutex
	cert *tls.Certificate
}

func (o *ownCertificate) get(authority *pki.Authority, now time.Time) (*tls.Certificate, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cert != nil && now.Before(pki.Due(o.cert.Leaf)) {
		return o.cert, nil
	}
	pair, err := authority.IssueClient(access.Root, now, NodeLife)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	o.cert = &cert
	return o.cert, nil
}
