package podmanager

import (
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
)

func FuzzAdd(f *testing.F) {
	f.Add("c1", "/var/run/netns/x", "eth0", `{"name":"net"}`, "K8S_POD_NAME=a;K8S_POD_NAMESPACE=b", "host-local", `[{"address":"10.0.0.1/24"}]`)
	f.Add("", "", "", "{", "K8S_POD_NAME", "x", `{"address":5}`)
	f.Fuzz(func(t *testing.T, container, netns, ifName, config, args, ipamType, ipamData string) {
		r := &cni.CNIRequest{
			ContainerId: container, NetworkNamespace: netns, InterfaceName: ifName, ExtraNwConfig: config, ExtraArguments: args,
			IpamType: ipamType, IpamData: ipamData,
		}
		pod, err := parseAdd(r)
		if err == nil && (pod.ContainerID == "" || !filepath.IsAbs(pod.NetNS) || pod.ID.Name == "" || pod.ID.Namespace == "" || len(pod.IfName) > maxIfNameLen) {
			t.Errorf("accepted: %+v", pod)
		}
		addrs, err := parseIPAM(r)
		for _, a := range addrs {
			if err != nil || !a.IsValid() || a.Is4In6() {
				t.Errorf("address %v, %v", a, err)
			}
		}
	})
}
