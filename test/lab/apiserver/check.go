package apiserver

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/lib/config"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kinds lists the kinds that KSR reflects and the lab does not write itself.
var kinds = []struct{ apiVersion, name string }{
	{"v1", "Namespace"}, {"v1", "Pod"}, {"v1", "Service"}, {"discovery.k8s.io/v1", "EndpointSlice"},
	{"networking.k8s.io/v1", "NetworkPolicy"}, {"networking.k8s.io/v1", "ServiceCIDR"}, {cnp.Group + "/" + cnp.Version, cnp.Kind},
}

// Check returns the errors for which an API server would reject the object. networks are the same
// as in Allocate.
func Check(object *unstructured.Unstructured, networks []netip.Prefix) []error {
	typed, known := ksr.NewObject(object.GetAPIVersion(), object.GetKind())
	if !known {
		return []error{unknownKind(object.GetAPIVersion(), object.GetKind())}
	}
	if errs := form(nil, object.Object, reflect.TypeOf(typed)); len(errs) > 0 {
		return errs
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return []error{err}
	}
	var errs []error
	for _, err := range check(typed) {
		errs = append(errs, err)
	}
	if s, is := typed.(*corev1.Service); is && len(errs) == 0 && s.Spec.Type != corev1.ServiceTypeExternalName {
		if err := allocateFamilies(s, networks); err != nil {
			return []error{err}
		}
		for _, err := range checkInNetworks(&s.Spec, networks) {
			errs = append(errs, err)
		}
	}
	return errs
}

func unknownKind(apiVersion, kind string) error {
	var names []string
	for _, k := range kinds {
		if k.name == kind {
			return fmt.Errorf("apiVersion: must be %s, not %q", k.apiVersion, apiVersion)
		}
		names = append(names, k.name)
	}
	if near, ok := config.Nearest(kind, names); ok {
		return fmt.Errorf("kind: KSR reads no objects of this kind: did you mean %q?", near)
	}
	return fmt.Errorf("kind: KSR reads no objects of this kind, so that it would change nothing; it reads %s", strings.Join(names, ", "))
}

var (
	metadata = field.NewPath("metadata")
	spec     = field.NewPath("spec")
)

func check(object ksr.Object) field.ErrorList {
	nameOf, namespaced := validation.NameIsDNSSubdomain, true
	var errs field.ErrorList
	switch o := object.(type) {
	case *corev1.Namespace:
		nameOf, namespaced = validation.NameIsDNSLabel, false
	case *corev1.Pod:
		errs = checkPod(o)
	case *corev1.Service:
		nameOf = validation.NameIsDNSLabel // Kubernetes 1.37; before, a letter came first
		errs = checkService(&o.Spec)
	case *discoveryv1.EndpointSlice:
		errs = checkSlice(o)
	case *networkingv1.NetworkPolicy:
		errs = checkPolicy(&o.Spec)
	case *networkingv1.ServiceCIDR:
		namespaced = false
		for i, text := range o.Spec.CIDRs {
			errs = append(errs, checkCIDR(spec.Child("cidrs").Index(i), text)...)
		}
	case *cnp.ClusterNetworkPolicy:
		namespaced = false
		errs = checkClusterPolicy(&o.Spec)
	}
	return append(validation.ValidateObjectMetaAccessor(object, namespaced, nameOf, metadata), errs...)
}

func checkPod(pod *corev1.Pod) (errs field.ErrorList) {
	for i, c := range pod.Spec.Containers {
		for j, p := range c.Ports {
			at := spec.Child("containers").Index(i).Child("ports").Index(j)
			errs = append(errs, checkPort(at.Child("containerPort"), p.ContainerPort)...)
			errs = append(errs, checkProtocol(at.Child("protocol"), p.Protocol)...)
			if p.HostPort != 0 {
				errs = append(errs, checkPort(at.Child("hostPort"), p.HostPort)...)
			}
			if p.HostIP != "" {
				errs = append(errs, checkIP(at.Child("hostIP"), p.HostIP)...)
			}
			if p.Name != "" {
				errs = append(errs, checkPortName(at.Child("name"), p.Name)...)
			}
		}
	}
	return errs
}

func checkSlice(slice *discoveryv1.EndpointSlice) (errs field.ErrorList) {
	switch slice.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN:
	default:
		errs = append(errs, oneOf(field.NewPath("addressType"), slice.AddressType, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN))
	}
	for i, e := range slice.Endpoints {
		at := field.NewPath("endpoints").Index(i).Child("addresses")
		if len(e.Addresses) == 0 {
			errs = append(errs, field.Required(at, "an endpoint has at least one address"))
		}
		for j, address := range e.Addresses {
			if slice.AddressType != discoveryv1.AddressTypeFQDN {
				errs = append(errs, checkIPOf(at.Index(j), address, slice.AddressType == discoveryv1.AddressTypeIPv6)...)
			}
		}
	}
	for i, p := range slice.Ports {
		at := field.NewPath("ports").Index(i)
		if p.Port != nil {
			errs = append(errs, checkPort(at.Child("port"), *p.Port)...)
		}
		if p.Protocol != nil {
			errs = append(errs, checkProtocol(at.Child("protocol"), *p.Protocol)...)
		}
	}
	return errs
}
