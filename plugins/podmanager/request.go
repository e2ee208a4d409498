package podmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/contiv/contiv/api/contiv/cni"
)

// The names that CNI allows; they become parts of keys.
var (
	containerIDs = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$`)
	podNames     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.\-]*$`)
)

const maxIfNameLen = 15

// checkAttachment checks what identifies an attachment: container and interface.
func checkAttachment(r *cni.CNIRequest) error {
	var errs []error
	if !containerIDs.MatchString(r.GetContainerId()) {
		errs = append(errs, fmt.Errorf("container_id %q (CNI_CONTAINERID) is missing or malformed", r.GetContainerId()))
	}
	name := r.GetInterfaceName()
	if name == "" || len(name) > maxIfNameLen || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n") {
		errs = append(errs, fmt.Errorf("interface_name %q (CNI_IFNAME) is missing or no interface name of at most %d characters", name, maxIfNameLen))
	}
	return errors.Join(errs...)
}

// parseAdd checks an ADD request and returns the pod that it is about.
func parseAdd(r *cni.CNIRequest) (LocalPod, error) {
	p := LocalPod{ContainerID: r.GetContainerId(), NetNS: r.GetNetworkNamespace(), IfName: r.GetInterfaceName()}
	errs := []error{checkAttachment(r)}
	if !filepath.IsAbs(p.NetNS) {
		errs = append(errs, fmt.Errorf("network_namespace %q (CNI_NETNS) is missing or no absolute path", p.NetNS))
	}
	if config := r.GetExtraNwConfig(); config != "" {
		var network struct{ Name string }
		if err := json.Unmarshal([]byte(config), &network); err != nil {
			errs = append(errs, fmt.Errorf("extra_nw_config is no valid network configuration: %w", err))
		}
		p.Network = network.Name
	}
	args, err := parseArgs(r.GetExtraArguments())
	errs = append(errs, err)
	if err == nil {
		for _, arg := range []struct {
			name  string
			value *string
		}{{"K8S_POD_NAME", &p.ID.Name}, {"K8S_POD_NAMESPACE", &p.ID.Namespace}} {
			*arg.value = args[arg.name]
			if !podNames.MatchString(*arg.value) {
				errs = append(errs, fmt.Errorf("%s=%q in CNI_ARGS is missing or malformed: the runtime must tell which pod the container belongs to", arg.name, *arg.value))
			}
		}
	}
	return p, errors.Join(errs...)
}

// parseIPAM returns the addresses that another IPAM plugin assigned, none if
// there is no such plugin.
func parseIPAM(r *cni.CNIRequest) ([]netip.Addr, error) {
	if r.GetIpamType() == "" {
		return nil, nil
	}
	type config struct{ Address string }
	configs := make([]config, 1)
	var target any = &configs[0]
	if strings.HasPrefix(strings.TrimSpace(r.GetIpamData()), "[") {
		target = &configs
	}
	if err := json.Unmarshal([]byte(r.GetIpamData()), target); err != nil {
		return nil, fmt.Errorf("ipam_data %q is not the IP configuration of the IPAM plugin %q: %w", r.GetIpamData(), r.GetIpamType(), err)
	}
	var addrs []netip.Addr
	for _, c := range configs {
		p, err := netip.ParsePrefix(c.Address)
		if err != nil {
			return nil, fmt.Errorf("ipam_data of the IPAM plugin %q has the address %q: an address with its prefix length is expected", r.GetIpamType(), c.Address)
		}
		addrs = append(addrs, p.Addr().Unmap())
	}
	return addrs, nil
}

// parseArgs reads "K=V;K=V".
func parseArgs(text string) (map[string]string, error) {
	args := make(map[string]string)
	for _, pair := range strings.Split(text, ";") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("extra_arguments (CNI_ARGS) has %q: pairs K=V separated by \";\" are expected", pair)
		}
		args[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return args, nil
}
