package credentials

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Credentials for etcd, PEM.
type Credentials struct {
	pki.Pair
	// Authority signs etcd's certificate.
	Authority []byte
}

// Requests are a cluster's CertificateSigningRequests, as in client-go.
type Requests interface {
	Create(context.Context, *certificatesv1.CertificateSigningRequest, metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error)
	Get(ctx context.Context, name string, o metav1.GetOptions) (*certificatesv1.CertificateSigningRequest, error)
}

const pollInterval = time.Second

// Request requests a certificate for a user and waits for it. approve, if not nil, is first called
// with the name of the request.
func Request(ctx context.Context, requests Requests, user string, nodes []string, approve func(ctx context.Context, name string) error) (Credentials, error) {
	request, err := pki.NewRequest(user, nodes...)
	if err != nil {
		return Credentials{}, err
	}
	made, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "contiv-etcd-" + objectName(user) + "-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request.PEM, SignerName: access.SignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return Credentials{}, fmt.Errorf("request a certificate: %w", err)
	}
	if approve != nil {
		if err := approve(ctx, made.Name); err != nil {
			return Credentials{}, err
		}
	}
	for {
		r, err := requests.Get(ctx, made.Name, metav1.GetOptions{})
		if err != nil {
			return Credentials{}, fmt.Errorf("read CertificateSigningRequest %s: %w", made.Name, err)
		}
		for _, c := range r.Status.Conditions {
			if c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed {
				return Credentials{}, fmt.Errorf("CertificateSigningRequest %s was refused: %s", made.Name, c.Message)
			}
		}
		if len(r.Status.Certificate) > 0 {
			return split(r.Status.Certificate, request.Key)
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return Credentials{}, fmt.Errorf("CertificateSigningRequest %s is not signed: %w: check that contiv-ksr is running", made.Name, ctx.Err())
		}
	}
}

func objectName(user string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(user))
	return name[:min(len(name), 200)]
}

func split(chain, key []byte) (Credentials, error) {
	var blocks [][]byte
	for rest := chain; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		blocks = append(blocks, pem.EncodeToMemory(block))
	}
	if len(blocks) != 2 {
		return Credentials{}, errors.New("the signed certificate comes without its authority: stop the other program that signs as " + access.SignerName)
	}
	return Credentials{pki.Pair{Cert: blocks[0], Key: key}, blocks[1]}, nil
}
