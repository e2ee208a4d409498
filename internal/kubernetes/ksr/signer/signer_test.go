package signer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/kubernetes/ksr/credentials"
	"github.com/contiv/contiv/internal/kubernetes/ksr/signer"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi/kubeapitest"
	"github.com/contiv/contiv/test/await"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

const (
	namespace = "kube-system"
	account   = "system:serviceaccount:kube-system:contiv-agent"
)

type cluster struct {
	t         *testing.T
	client    *fake.Clientset
	mu        sync.Mutex
	user, pod string
	uid       types.UID
	number    int
	clients   map[string]access.Client
	refusing  error
	stop      func()
}

func node(name, address string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}},
	}}
}

func pod(name, node, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account},
	}
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{
		t: t, clients: make(map[string]access.Client), user: account, pod: "agent-1", uid: "uid-agent-1",
		client: fake.NewClientset(node("n1", "192.168.16.1"), node("n2", "fd00::2"), pod("agent-1", "n1", "contiv-agent"), pod("other", "n1", "default")),
	}
	c.client.PrependReactor("create", "certificatesigningrequests", func(a k8stesting.Action) (bool, runtime.Object, error) {
		r := a.(k8stesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.number++
		r.Name = fmt.Sprint(r.GenerateName, c.number)
		r.Spec.Username = c.user
		r.Spec.Extra = nil
		if c.pod != "" {
			r.Spec.Extra = map[string]certificatesv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {c.pod}, "authentication.kubernetes.io/pod-uid": {string(c.uid)},
			}
		}
		return false, nil, nil
	})
	c.client.PrependReactor("*", "secrets", refuseStale())
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

func refuseStale() k8stesting.ReactionFunc {
	versions := map[string]int{} // the client handles one action at a time
	return func(a k8stesting.Action) (bool, runtime.Object, error) {
		written, ok := a.(k8stesting.CreateAction) // or an update, which has the same methods
		if !ok {
			return false, nil, nil
		}
		secret := written.GetObject().(*corev1.Secret)
		version := versions[secret.Name]
		switch {
		case a.GetVerb() == "create":
			version = max(version, 1) // keep an existing version
		case secret.ResourceVersion != "" && secret.ResourceVersion != fmt.Sprint(version):
			return true, nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it has changed"))
		default:
			version++
		}
		versions[secret.Name] = version
		secret.ResourceVersion = fmt.Sprint(version)
		return false, nil, nil
	}
}

func (c *cluster) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		s := signer.New(signer.Options{
			Client: kubeapitest.Client(c.client), Namespace: namespace, Logger: slog.New(slog.DiscardHandler),
			Clients: func(_ context.Context, name string, client access.Client) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				if err := c.refusing; err != nil {
					c.refusing = nil
					return err
				}
				c.clients[name] = client
				return nil
			},
		})
		wg.Go(func() {
			if err := s.Run(ctx); err != nil {
				c.t.Error(err)
			}
		})
	}
	c.stop = func() { cancel(); wg.Wait() }
}

func (c *cluster) as(user, pod string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.user, c.pod, c.uid = user, pod, uid
}

func (c *cluster) request(user string, nodes ...string) (credentials.Credentials, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), await.Patience)
	defer cancel()
	return credentials.Request(ctx, c.client.CertificatesV1().CertificateSigningRequests(), user, nodes, nil)
}

func TestNodesGetTheirOwnCertificate(t *testing.T) {
	c := newCluster(t)
	got, err := c.request("node:n1")
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.ParseCertificate(got.Authority)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate(got.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.CheckSignatureFrom(authority); err != nil || cert.Subject.String() != "CN=node:n1" {
		t.Errorf("%s: %v", cert.Subject, err)
	}
	for name, test := range map[string]struct {
		user, account, pod string
		uid                types.UID
		want               string
	}{
		"another node":      {"node:n2", account, "agent-1", "uid-agent-1", "requested a certificate of node n2"},
		"root":              {"root", account, "agent-1", "uid-agent-1", "common name"},
		"no pod":            {"node:n1", account, "", "", "does not belong to a pod"},
		"a pod that is not": {"node:n1", account, "gone", "x", "was deleted"},
		"a former pod":      {"node:n1", account, "agent-1", "uid-former", "replaced by another one"},
		"another account":   {"node:n1", "system:serviceaccount:default:x", "other", "uid-other", "only pods of the agent"},
		"pod of another":    {"node:n1", account, "other", "uid-other", "replaced by another one"},
		"client of nothing": {"client:ops", "admin", "", "", "set the nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			c.as(test.account, test.pod, test.uid)
			if _, err := c.request(test.user); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestClientsAreApproved(t *testing.T) {
	c := newCluster(t)
	c.as("admin", "", "")
	c.refusing = errors.New("etcd is away")
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	got, err := credentials.Request(ctx, c.client.CertificatesV1().CertificateSigningRequests(), "client:ops", []string{"n1", "n2"}, func(ctx context.Context, name string) error {
		requests := c.client.CertificatesV1().CertificateSigningRequests()
		r, err := requests.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(r.Status.Conditions)+len(r.Status.Certificate) > 0 {
			t.Errorf("not approved, and yet: %v", r.Status)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
		_, err = requests.UpdateApproval(ctx, name, r, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if cert, err := pki.ParseCertificate(got.Cert); err != nil || cert.Subject.CommonName != "client:ops" {
		t.Errorf("%v %v", cert.Subject, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if nodes := c.clients["ops"].Nodes; !slices.Equal(nodes, []string{"n1", "n2"}) {
		t.Errorf("nodes %q", nodes)
	}
}

func TestServerCertificate(t *testing.T) {
	c := newCluster(t)
	server := func() (string, []string) {
		secret, err := c.client.CoreV1().Secrets(namespace).Get(t.Context(), signer.ServerSecret, metav1.GetOptions{})
		if err != nil {
			return "", nil
		}
		cert, err := pki.ParseCertificate(secret.Data["tls.crt"])
		if err != nil {
			t.Fatal(err)
		}
		var addresses []string
		for _, ip := range cert.IPAddresses {
			a, _ := netip.AddrFromSlice(ip)
			addresses = append(addresses, a.Unmap().String())
		}
		return string(secret.Data["tls.crt"]), addresses
	}
	covers := func(want ...string) func() error {
		return func() error {
			if _, got := server(); !slices.Equal(got, want) {
				return fmt.Errorf("addresses %q", got)
			}
			return nil
		}
	}
	await.That(t, "a certificate of both nodes", covers("127.0.0.1", "192.168.16.1", "::1", "fd00::2"))
	before, _ := server()
	c.stop()
	c.start()
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node("n3", "192.168.16.3"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "a certificate of three nodes", covers("127.0.0.1", "192.168.16.1", "192.168.16.3", "::1", "fd00::2"))
	after, _ := server()
	c.stop()
	c.start()
	got, err := c.request("node:n1")
	if err != nil {
		t.Fatal(err)
	}
	if now, _ := server(); before == after || now != after {
		t.Error("a new certificate without need")
	}
	authority, err := pki.ParseCertificate(got.Authority)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pki.ParseCertificate([]byte(after))
	if err != nil {
		t.Fatal(err)
	}
	if err := cert.CheckSignatureFrom(authority); err != nil {
		t.Errorf("another authority: %v", err)
	}
}

func TestKeep(t *testing.T) {
	c := newCluster(t)
	dir := filepath.Join(t.TempDir(), "credentials")
	kept := make(chan time.Time, 10)
	run := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			err := credentials.Keep(ctx, credentials.Options{
				Requests: c.client.CertificatesV1().CertificateSigningRequests(), Node: "n1", Dir: dir, Logger: slog.New(slog.DiscardHandler), Kept: func(due time.Time) { kept <- due },
			})
			if err != nil {
				t.Error(err)
			}
		}()
		return func() { cancel(); <-done }
	}
	read := func() string {
		data, err := os.ReadFile(filepath.Join(dir, credentials.ClientFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	stop := run()
	due := <-kept
	stop()
	if left := time.Until(due); left < signer.NodeLife/2-time.Hour || left > signer.NodeLife/2 {
		t.Errorf("renewal in %s", left)
	}
	first := read()
	if info, err := os.Stat(filepath.Join(dir, credentials.ClientFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	stop = run()
	if again := <-kept; !again.Equal(due) || read() != first {
		t.Error("created again without need")
	}
	stop()
	authority, err := pki.NewAuthority("x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	old, err := authority.IssueClient("node:n1", time.Now().Add(-5*24*time.Hour), signer.NodeLife)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, credentials.ClientFile), append(old.Cert, old.Key...), 0o600); err != nil {
		t.Fatal(err)
	}
	stop = run()
	defer stop()
	if again := <-kept; time.Until(again) < signer.NodeLife/2-time.Hour {
		t.Errorf("renewal at %s", again)
	}
}

// The manifests grant exactly the permissions that the signer and its clients use.
func TestPermissionsAreThoseThatAreUsed(t *testing.T) {
	permitted := map[string]bool{}
	for _, file := range []string{"contiv-ksr-rbac.yaml", "contiv.yaml"} {
		data, err := os.ReadFile(filepath.Join("../../../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var role rbacv1.ClusterRole
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains([]string{"ClusterRole contiv-ksr-signer", "Role contiv-ksr-signer", "ClusterRole contiv-agent"}, role.Kind+" "+role.Name) {
				continue
			}
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if resource != "signers" { // checked by the API server on changes of requests
							permitted[verb+" "+resource] = true
						}
					}
				}
			}
		}
	}
	c := newCluster(t)
	if _, err := c.request("node:n1"); err != nil {
		t.Fatal(err)
	}
	server := func() (string, error) {
		secret, err := c.client.CoreV1().Secrets(namespace).Get(t.Context(), signer.ServerSecret, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return string(secret.Data["tls.crt"]), nil
	}
	var first string
	await.That(t, "a certificate of etcd", func() (err error) { first, err = server(); return err })
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node("n3", "192.168.16.3"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "a new one", func() error {
		if next, err := server(); err != nil || next == first {
			return fmt.Errorf("the first one: %v", err)
		}
		return nil
	})
	c.stop()
	c.stop = func() {}
	used := map[string]bool{}
	for _, a := range c.client.Actions() {
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		if what := a.GetVerb() + " " + resource; what != "create nodes" {
			used[what] = true
		}
	}
	if !maps.Equal(permitted, used) {
		t.Errorf("permitted: %q\nused: %q", slices.Sorted(maps.Keys(permitted)), slices.Sorted(maps.Keys(used)))
	}
}
