package signer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	// AuthoritySecret holds the authority, and ServerSecret etcd's certificate.
	AuthoritySecret = "contiv-etcd-ca"
	ServerSecret    = "contiv-etcd-server"
	// AgentAccount is the service account of the agents.
	AgentAccount = "contiv-agent"

	// NodeLife is the validity of the certificates of nodes, etcd and KSR, which are renewed after
	// half of it.
	NodeLife = 7 * 24 * time.Hour
	// ClientLife is the validity of a client's certificate unless the request asks for less.
	ClientLife = 365 * 24 * time.Hour
)

// ServerNames lists the names in etcd's certificate. Clients that connect to an address expect the
// first.
func ServerNames(namespace string) []string {
	return []string{"contiv-etcd", "contiv-etcd." + namespace, "contiv-etcd." + namespace + ".svc", "localhost"}
}

const (
	podNameClaim = "authentication.kubernetes.io/pod-name"
	podUIDClaim  = "authentication.kubernetes.io/pod-uid"
)

// Options of a Signer.
type Options struct {
	Client *kubeapi.Client
	// Namespace of the Secrets and the agents.
	Namespace string
	// Clients records the nodes of a client before it gets its certificate.
	Clients func(ctx context.Context, name string, c access.Client) error
	Logger  *slog.Logger
	// Now; nil: time.Now.
	Now func() time.Time
}

// Signer issues certificates.
type Signer struct {
	Options
	authority atomic.Pointer[pki.Authority]
	queue     workqueue.TypedRateLimitingInterface[string]
	requests  cache.Indexer
	nodes     cache.Indexer
	own       ownCertificate
}

// serverKey stands for etcd's certificate in the queue. Request names have no slash.
const serverKey = "/server"

// New returns a signer. Run starts it.
func New(o Options) *Signer {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Signer{Options: o}
}

// AwaitAuthority reads the authority from its Secret, or creates it, once the API server answers.
// Run calls it.
func (s *Signer) AwaitAuthority(ctx context.Context) error {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		authority, err := s.findAuthority(ctx)
		if err == nil {
			s.authority.Store(authority)
			return nil
		}
		s.Logger.Warn("reading the authority for etcd's certificates failed, retrying", "in", wait, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Signer) findAuthority(ctx context.Context) (*pki.Authority, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	secrets := s.Client.Secrets(s.Namespace)
	secret, err := secrets.Get(ctx, AuthoritySecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, makeErr := pki.NewAuthority(AuthoritySecret, s.Now())
		if makeErr != nil {
			return nil, makeErr
		}
		pair := made.Pair()
		secret, err = secrets.Create(ctx, tlsSecret(AuthoritySecret, pair), metav1.CreateOptions{})
		if err == nil {
			s.Logger.Info("authority for etcd's certificates created", "secret", AuthoritySecret)
		}
		if apierrors.IsAlreadyExists(err) { // another KSR was faster
			secret, err = secrets.Get(ctx, AuthoritySecret, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, err
	}
	authority, err := pki.LoadAuthority(pki.Pair{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]})
	if err != nil {
		return nil, fmt.Errorf("authority in Secret %s: %w: restore it from a backup, or delete it, so that a new one is created and etcd and agents get new certificates", AuthoritySecret, err)
	}
	return authority, nil
}

func tlsSecret(name string, pair pki.Pair) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "contiv-etcd"}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: pair.Cert, corev1.TLSPrivateKeyKey: pair.Key},
	}
}

// Credentials returns credentials of etcd's root.
func (s *Signer) Credentials() *etcd.Credentials {
	return &etcd.Credentials{
		Certificate: func() (*tls.Certificate, error) {
			authority := s.authority.Load()
			if authority == nil {
				return nil, errNoAuthority
			}
			return s.own.get(authority, s.Now())
		},
		Authorities: func() (*x509.CertPool, error) {
			authority := s.authority.Load()
			if authority == nil {
				return nil, errNoAuthority
			}
			return authority.Pool(), nil
		},
	}
}

var errNoAuthority = errors.New("the authority for etcd's certificates is unknown: check that the API server is reachable")

// Run signs requests until ctx ends.
func (s *Signer) Run(ctx context.Context) error {
	if s.AwaitAuthority(ctx) != nil {
		return nil
	}
	s.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond, 30*time.Second))
	defer s.queue.ShutDown()
	nodes := kubeapi.NewInformer(s.Client.Nodes, &corev1.Node{}, nil)
	requests := kubeapi.NewInformer(s.Client.Requests, &certificatesv1.CertificateSigningRequest{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.signerName", access.SignerName).String()
	})
	s.nodes, s.requests = nodes.GetIndexer(), requests.GetIndexer()
	server := func(any) { s.queue.Add(serverKey) }
	request := func(object any) {
		if r, ok := object.(*certificatesv1.CertificateSigningRequest); ok {
			s.queue.Add(r.Name)
		}
	}
	for informer, changed := range map[cache.SharedIndexInformer]func(any){nodes: server, requests: request} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: changed}); err != nil {
			return fmt.Errorf("follow the API server: %w", err)
		}
	}
	var following sync.WaitGroup
	defer following.Wait()
	following.Go(func() { nodes.RunWithContext(ctx) })
	following.Go(func() { requests.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), nodes.HasSynced, requests.HasSynced) {
		return nil
	}
	s.queue.Add(serverKey)
	defer context.AfterFunc(ctx, s.queue.ShutDown)()
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return nil
		}
		s.work(ctx, key)
		s.queue.Done(key)
	}
}

func (s *Signer) work(ctx context.Context, key string) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	if key == serverKey {
		var due time.Time
		if due, err = s.keepServer(ctx); err == nil {
			s.queue.AddAfter(serverKey, max(due.Sub(s.Now()), time.Minute))
		}
	} else {
		err = s.answer(ctx, key)
	}
	switch {
	case err == nil:
		s.queue.Forget(key)
	case apierrors.IsConflict(err): // another KSR was faster, or our copy is outdated
		s.queue.AddRateLimited(key)
	default:
		s.Logger.Warn("issuing a certificate for etcd failed, retrying", "of", strings.TrimPrefix(key, "/"), "error", err)
		s.queue.AddRateLimited(key)
	}
}

// keepServer renews etcd's certificate if necessary. It returns the time of the next check.
func (s *Signer) keepServer(ctx context.Context) (time.Time, error) {
	names, addresses, authority := ServerNames(s.Namespace), s.addresses(), s.authority.Load()
	secrets := s.Client.Secrets(s.Namespace)
	secret, err := secrets.Get(ctx, ServerSecret, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return time.Time{}, err
	}
	if !missing {
		if cert, err := pki.ParseCertificate(secret.Data[corev1.TLSCertKey]); err == nil && authority.Signed(cert) &&
			pki.Covers(cert, names, addresses) && s.Now().Before(pki.Due(cert)) && string(secret.Data[caKey]) == string(authority.Pair().Cert) {
			return pki.Due(cert), nil
		}
	}
	pair, err := authority.IssueServer(names, addresses, s.Now(), NodeLife)
	if err != nil {
		return time.Time{}, err
	}
	next := tlsSecret(ServerSecret, pair)
	next.Data[caKey] = authority.Pair().Cert
	if missing {
		_, err = secrets.Create(ctx, next, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return s.Now(), nil // read it again
		}
	} else {
		next.ResourceVersion = secret.ResourceVersion
		if secret.Type != next.Type {
			return time.Time{}, fmt.Errorf("certificate in Secret %s: it has the type %s: delete it, so that one of type %s is created", ServerSecret, secret.Type, next.Type)
		}
		_, err = secrets.Update(ctx, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return time.Time{}, err
	}
	s.Logger.Info("etcd has a new certificate", "addresses", addresses)
	return s.Now().Add(NodeLife / 2), nil
}

const caKey = "ca.crt"

// addresses returns the addresses of all nodes, sorted. Each may lead to etcd.
func (s *Signer) addresses() []netip.Addr {
	addresses := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	for _, object := range s.nodes.List() {
		for _, a := range object.(*corev1.Node).Status.Addresses {
			if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
				continue
			}
			if address, err := kubeaddr.ParseAddr(a.Address); err == nil {
				addresses = append(addresses, address)
			}
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}
