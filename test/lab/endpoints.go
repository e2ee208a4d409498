package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/test/lab/apiserver"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func (l *Lab) applyService(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	service := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, service); err != nil {
		return "", err
	}
	var done string
	err := l.change(ctx, func(st *State) error {
		networks, err := l.serviceNetworks(st)
		if err != nil {
			return err
		}
		others, err := stored[corev1.Service](l, "Service")
		if err != nil {
			return err
		}
		others, previous := withoutService(others, service)
		if err := apiserver.Allocate(service, previous, others, networks); err != nil {
			return err
		}
		done, err = l.replaceManifest(manifest{objectManifest(object).file, service})
		return err
	})
	return done + addressesOf(service), err
}

func withoutService(all []corev1.Service, service *corev1.Service) (others []corev1.Service, previous *corev1.Service) {
	for i, s := range all {
		if s.Namespace == service.Namespace && s.Name == service.Name {
			previous = &all[i]
			continue
		}
		others = append(others, s)
	}
	return others, previous
}

// serviceNetworks returns the networks of contiv.conf, and then those of the ServiceCIDRs.
func (l *Lab) serviceNetworks(st *State) (networks []netip.Prefix, err error) {
	c, err := contivconf.Load([]byte(st.ContivConfig))
	if err != nil {
		return nil, err
	}
	for text := range strings.FieldsFuncSeq(c.IPAMConfig.ServiceCIDR, func(c rune) bool { return c == ',' || c == ' ' }) {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("serviceCIDR of the lab: %w", err)
		}
		networks = append(networks, network.Masked())
	}
	if len(networks) == 0 {
		networks = append(networks, apiserver.DefaultServiceNetwork)
	}
	added, err := stored[networkingv1.ServiceCIDR](l, "ServiceCIDR")
	if err != nil {
		return nil, err
	}
	for _, a := range added {
		for _, text := range a.Spec.CIDRs {
			if network, err := netip.ParsePrefix(text); err == nil {
				networks = append(networks, network)
			}
		}
	}
	return networks, nil
}

func addressesOf(s *corev1.Service) string {
	if len(s.Spec.ClusterIPs) == 0 || s.Spec.ClusterIPs[0] == corev1.ClusterIPNone {
		return ""
	}
	text := ": cluster IP " + strings.Join(s.Spec.ClusterIPs, ", ")
	told := map[int32]bool{0: true}
	for _, p := range s.Spec.Ports {
		if !told[p.NodePort] { // several protocols may use the same port
			text += fmt.Sprintf(", node port %d", p.NodePort)
		}
		told[p.NodePort] = true
	}
	return text
}

const endpointSlice = "EndpointSlice"

func (l *Lab) writeEndpoints() error {
	services, err := stored[corev1.Service](l, "Service")
	if err != nil {
		return err
	}
	given, err := stored[discoveryv1.EndpointSlice](l, endpointSlice)
	if err != nil {
		return err
	}
	var wanted []discoveryv1.EndpointSlice
	if slices.ContainsFunc(services, func(s corev1.Service) bool { return len(s.Spec.Selector) > 0 }) {
		pods, err := stored[corev1.Pod](l, "Pod")
		if err != nil {
			return err
		}
		wanted = apiserver.Slices(services, pods, given)
	}
	keep := map[string]bool{}
	for _, s := range wanted {
		file := manifestName(endpointSlice, s.Namespace, s.Name)
		keep[file] = true
		if err := l.updateManifest(manifest{file, s}); err != nil {
			return err
		}
	}
	var errs []error
	for _, s := range given {
		if file := manifestName(endpointSlice, s.Namespace, s.Name); s.Labels[discoveryv1.LabelManagedBy] == apiserver.ManagedBy && !keep[file] {
			errs = append(errs, l.removeManifest(file))
		}
	}
	return errors.Join(errs...)
}

// updateManifest writes the object unless KSR already has it.
func (l *Lab) updateManifest(m manifest) error {
	data, err := yaml.Marshal(m.object)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", m.file, err)
	}
	if old, err := os.ReadFile(l.Path("manifests", m.file)); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return l.writeManifest(m)
}
