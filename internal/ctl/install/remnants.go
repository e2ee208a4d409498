package install

import (
	"context"
	"slices"

	"github.com/contiv/contiv/internal/ctl/kube"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// certificateSigner signs the requests for certificates of etcd: package signer.
	certificateSigner = "contiv.io/etcd-client"
	// nodeCondition is the condition that KSR sets on Nodes: package conditions.
	nodeCondition corev1.NodeConditionType = "ContivReady"
)

// remnant is an object created by agents or KSR and not in any manifest.
type remnant struct {
	name   string // for people
	remove func(ctx context.Context) error
}

// remnants lists the existing Secrets, certificate requests and Node conditions.
func (c *Cluster) remnants(ctx context.Context) (found []remnant, err error) {
	for _, name := range secrets {
		if _, err := c.ours(kube.Secrets).Get(ctx, name, metav1.GetOptions{}); err == nil {
			found = append(found, remnant{"Secret " + Namespace + "/" + name, func(ctx context.Context) error {
				return c.ours(kube.Secrets).Delete(ctx, name, metav1.DeleteOptions{})
			}})
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	requests, err := kube.List[certificatesv1.CertificateSigningRequest](ctx, c.client.Resource(kube.SigningRequests), "")
	if err != nil {
		return nil, err
	}
	for _, r := range requests {
		if r.Spec.SignerName == certificateSigner {
			found = append(found, remnant{"CertificateSigningRequest " + r.Name, func(ctx context.Context) error {
				return c.client.Resource(kube.SigningRequests).Delete(ctx, r.Name, metav1.DeleteOptions{})
			}})
		}
	}
	nodes, err := kube.List[corev1.Node](ctx, c.client.Resource(kube.Nodes), "")
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == nodeCondition }) {
			found = append(found, remnant{"condition " + string(nodeCondition) + " of node " + n.Name, func(ctx context.Context) error {
				const patch = `{"status": {"conditions": [{"$patch": "delete", "type": "` + string(nodeCondition) + `"}]}}`
				_, err := c.client.Resource(kube.Nodes).Patch(ctx, n.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}, "status")
				return err
			}})
		}
	}
	return found, nil
}

// removeRemnants removes all remnants.
func (c *Cluster) removeRemnants(ctx context.Context) error {
	found, err := c.remnants(ctx)
	if err != nil {
		return err
	}
	for _, l := range found {
		if err := l.remove(ctx); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		c.say("%s deleted", l.name)
	}
	return nil
}
