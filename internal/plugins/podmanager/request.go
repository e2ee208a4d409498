package podmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/contiv/contiv/api/contiv/cni"
)

// CNI's rules for names, which become parts of keys.
var (
	containerIDs = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$`)
	podNames     = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.\-]*$`)
)

const (
	maxIfNameLen = 15
	// maxName is the maximal length of container IDs and names, as in Kubernetes.
	maxName = 253
	// maxPath is PATH_MAX without the final zero.
	maxPath = 4095
	// maxArguments and maxConfig limit the parsed input in bytes.
	maxArguments, maxConfig = 16 << 10, 1 << 20
)

func shown(text string) string {
	const most = 80
	if len(text) > most {
		return fmt.Sprintf("%.*q… (%d bytes)", most, text, len(text))
	}
	return fmt.Sprintf("%q", text)
}

func named(text string, form *regexp.Regexp) bool {
	return len(text) <= maxName && form.MatchString(text)
}

func checkAttachment(r *cni.CNIRequest) error {
	var errs []error
	if !named(r.GetContainerId(), containerIDs) {
		errs = append(errs, fmt.Errorf("container_id %s (CNI_CONTAINERID) is missing, malformed or longer than %d characters", shown(r.GetContainerId()), maxName))
	}
	name := r.GetInterfaceName()
	if name == "" || len(name) > maxIfNameLen || name == "." || name == ".." || strings.ContainsAny(name, "/:") || strings.ContainsFunc(name, isOdd) {
		errs = append(errs, fmt.Errorf("interface_name %s (CNI_IFNAME) is missing or not an interface name of at most %d characters", shown(name), maxIfNameLen))
	}
	return errors.Join(errs...)
}

func parseAdd(r *cni.CNIRequest) (LocalPod, error) {
	p := LocalPod{ContainerID: r.GetContainerId(), NetNS: r.GetNetworkNamespace(), IfName: r.GetInterfaceName()}
	errs := []error{checkAttachment(r)}
	if !filepath.IsAbs(p.NetNS) || len(p.NetNS) > maxPath || strings.ContainsFunc(p.NetNS, unicode.IsControl) {
		errs = append(errs, fmt.Errorf("network_namespace %s (CNI_NETNS) is missing or not an absolute path", shown(p.NetNS)))
	}
	if n := len(r.GetExtraNwConfig()); n > maxConfig {
		errs = append(errs, fmt.Errorf("extra_nw_config has %d bytes: at most %d are allowed", n, maxConfig))
	} else if config := r.GetExtraNwConfig(); config != "" {
		var network struct {
			Name          string
			RuntimeConfig struct{ PortMappings json.RawMessage }
		}
		if err := json.Unmarshal([]byte(config), &network); err != nil {
			errs = append(errs, fmt.Errorf("extra_nw_config is not a valid network configuration: %w", err))
		}
		ports, err := parseHostPorts(network.RuntimeConfig.PortMappings)
		p.HostPorts, errs = ports, append(errs, err)
		if p.Network = network.Name; len(p.Network) > maxName {
			errs = append(errs, fmt.Errorf("name %s in extra_nw_config is longer than %d characters", shown(p.Network), maxName))
		}
	}
	args, err := parseArgs(r.GetExtraArguments())
	errs = append(errs, err)
	if p.UID = args["K8S_POD_UID"]; p.UID != "" && !named(p.UID, containerIDs) {
		errs = append(errs, fmt.Errorf("K8S_POD_UID=%s in CNI_ARGS is malformed: the runtime must pass the UID of the pod, or none", shown(p.UID)))
	}
	if err == nil {
		for _, arg := range []struct {
			name  string
			value *string
		}{{"K8S_POD_NAME", &p.ID.Name}, {"K8S_POD_NAMESPACE", &p.ID.Namespace}} {
			*arg.value = args[arg.name]
			if !named(*arg.value, podNames) {
				errs = append(errs, fmt.Errorf("%s=%s in CNI_ARGS is missing or malformed: the runtime must name the pod of the container", arg.name, shown(*arg.value)))
			}
		}
	}
	return p, errors.Join(errs...)
}

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

func isOdd(c rune) bool {
	return unicode.IsSpace(c) || unicode.IsControl(c) || c == unicode.ReplacementChar
}

func parseArgs(text string) (map[string]string, error) {
	args := make(map[string]string)
	if len(text) > maxArguments {
		return nil, fmt.Errorf("extra_arguments (CNI_ARGS) has %d bytes: at most %d are allowed", len(text), maxArguments)
	}
	for _, pair := range strings.Split(text, ";") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("extra_arguments (CNI_ARGS) has %s: pairs K=V separated by \";\" are expected", shown(pair))
		}
		args[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return args, nil
}
