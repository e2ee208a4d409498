package signer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (s *Signer) answer(ctx context.Context, name string) error {
	object, exists, err := s.requests.GetByKey(name)
	if err != nil || !exists {
		return err
	}
	r := object.(*certificatesv1.CertificateSigningRequest).DeepCopy()
	if len(r.Status.Certificate) > 0 || hasCondition(r, certificatesv1.CertificateDenied) || hasCondition(r, certificatesv1.CertificateFailed) {
		return nil
	}
	subject, err := s.subject(ctx, r)
	var refused *refusedError
	switch {
	case errors.As(err, &refused):
		return s.refuse(ctx, r, refused)
	case err != nil:
		return err
	case !hasCondition(r, certificatesv1.CertificateApproved):
		if !subject.own {
			return nil // an administrator decides
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "OwnNode", Message: "a pod of the agent asks for its own node",
		})
		_, err := s.Client.Requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
		return err // the change queues the request again
	}
	if subject.client != "" {
		if err := s.Clients(ctx, subject.client, subject.permitted); err != nil {
			return fmt.Errorf("create the user of client %s in etcd: %w", subject.client, err)
		}
	}
	life := subject.life
	if r.Spec.ExpirationSeconds != nil {
		life = min(life, time.Duration(*r.Spec.ExpirationSeconds)*time.Second)
	}
	authority := s.authority.Load()
	cert, err := authority.SignClient(r.Spec.Request, subject.user, s.Now(), life)
	if err != nil {
		return err
	}
	r.Status.Certificate = append(cert, authority.Pair().Cert...)
	if _, err := s.Client.Requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil {
		return err
	}
	s.Logger.Info("certificate for etcd signed", "user", subject.user, "request", r.Name, "by", r.Spec.Username)
	return nil
}

func (s *Signer) refuse(ctx context.Context, r *certificatesv1.CertificateSigningRequest, reason *refusedError) error {
	s.Logger.Warn("request for a certificate for etcd refused", "request", r.Name, "by", r.Spec.Username, "error", reason)
	condition := certificatesv1.CertificateSigningRequestCondition{Status: corev1.ConditionTrue, Reason: "Refused", Message: reason.Error()}
	requests := s.Client.Requests
	var err error
	if hasCondition(r, certificatesv1.CertificateApproved) {
		condition.Type = certificatesv1.CertificateFailed
		r.Status.Conditions = append(r.Status.Conditions, condition)
		_, err = requests.UpdateStatus(ctx, r, metav1.UpdateOptions{})
	} else {
		condition.Type = certificatesv1.CertificateDenied
		r.Status.Conditions = append(r.Status.Conditions, condition)
		_, err = requests.UpdateApproval(ctx, r.Name, r, metav1.UpdateOptions{})
	}
	return err
}

func hasCondition(r *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == condition {
			return true
		}
	}
	return false
}

type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

func refused(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

type subject struct {
	user string
	// own means that the requester runs on the node and needs no approval.
	own  bool
	life time.Duration
	// client is the name of a client with its permissions, or "" for nodes.
	client    string
	permitted access.Client
}

// subject returns the subject of a request. The error wraps refusedError if the request is invalid.
func (s *Signer) subject(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (subject, error) {
	request, err := pki.ParseRequest(r.Spec.Request)
	if err != nil {
		return subject{}, refused("%v", err)
	}
	for _, usage := range r.Spec.Usages {
		if usage != certificatesv1.UsageClientAuth && usage != certificatesv1.UsageDigitalSignature {
			return subject{}, refused("usage %q: use only %q and %q", usage, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature)
		}
	}
	user := request.Subject.CommonName
	if node, ok := strings.CutPrefix(user, access.NodeUser); ok {
		if r.Spec.Username != "system:serviceaccount:"+s.Namespace+":"+AgentAccount {
			return subject{}, refused("only pods of the agent get certificates of nodes: %s is not one of them", r.Spec.Username)
		}
		runs, err := s.nodeOf(ctx, r)
		if err != nil {
			return subject{}, err
		}
		if runs != node {
			return subject{}, refused("a pod on node %s requested a certificate of node %s", runs, node)
		}
		return subject{user: user, own: true, life: NodeLife}, nil
	}
	name, ok := strings.CutPrefix(user, access.ClientUser)
	if !ok {
		return subject{}, refused("common name %q must be %s<node> or %s<name>", user, access.NodeUser, access.ClientUser)
	}
	client := access.Client{Nodes: request.Subject.OrganizationalUnit}
	if err := access.CheckClient(name, client); err != nil {
		return subject{}, refused("%v (organizational units of the request are the nodes)", err)
	}
	return subject{user: user, life: ClientLife, client: name, permitted: client}, nil
}

// nodeOf returns the node of the requesting pod, from its token's claims, which the API server has
// verified.
func (s *Signer) nodeOf(ctx context.Context, r *certificatesv1.CertificateSigningRequest) (string, error) {
	name, uid := r.Spec.Extra[podNameClaim], r.Spec.Extra[podUIDClaim]
	if len(name) != 1 || len(uid) != 1 {
		return "", refused("the token of %s does not belong to a pod", r.Spec.Username)
	}
	pod, err := s.Client.Pods(s.Namespace).Get(ctx, name[0], metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", refused("pod %s was deleted", name[0])
	}
	if err != nil {
		return "", err
	}
	if string(pod.UID) != uid[0] || pod.Spec.ServiceAccountName != AgentAccount {
		return "", refused("pod %s was replaced by another one", name[0])
	}
	return pod.Spec.NodeName, nil
}
