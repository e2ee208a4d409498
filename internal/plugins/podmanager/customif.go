package podmanager

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/controller"
)

const (
	// CustomIfAnnotation is the prefix of annotations that declare custom interfaces of a pod:
	// NAME/TYPE[/NETWORK], separated by commas. Several annotations are read in the order of their
	// names.
	CustomIfAnnotation = "contivpp.io/custom-if"
	// EndpointIfAnnotation names the interface whose address services use instead of the main one.
	EndpointIfAnnotation = "contivpp.io/service-endpoint-if"
)

// Networks of custom interfaces.
const (
	DefaultNetwork = "default" // network of the main interfaces
	StubNetwork    = "stub"    // no address
)

// CustomIf is a custom interface of a pod.
type CustomIf struct {
	// Name inside the pod.
	Name string `json:"name"`
	// Type is "tap" or "veth".
	Type string `json:"type"`
	// Network is DefaultNetwork or StubNetwork.
	Network string `json:"network"`
}

// CustomIfs is the parsed form of a pod's annotations.
type CustomIfs struct {
	Interfaces []CustomIf `json:"interfaces,omitempty"`
	// EndpointIf is the interface for services, or "" for the main one.
	EndpointIf string `json:"endpointIf,omitempty"`
	// Refused lists the rejected parts of the annotations with reasons.
	Refused []string `json:"refused,omitempty"`
}

// Equal reports whether both are equal.
func (c CustomIfs) Equal(other CustomIfs) bool {
	return slices.Equal(c.Interfaces, other.Interfaces) && c.EndpointIf == other.EndpointIf && slices.Equal(c.Refused, other.Refused)
}

func (c CustomIfs) find(name string) (CustomIf, bool) {
	if i := slices.IndexFunc(c.Interfaces, func(i CustomIf) bool { return i.Name == name }); i >= 0 {
		return c.Interfaces[i], true
	}
	return CustomIf{}, false
}

const maxCustomIfs = 16

// ifName matches device names without separators of keys and annotations.
var ifName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)

// ParseCustomIfs parses the annotations of a pod with the given main interface. It rejects invalid
// entries individually and stops after too many.
func ParseCustomIfs(annotations map[string]string, mainIf string) (c CustomIfs) {
	refuse := func(format string, args ...any) {
		if len(c.Refused) < maxCustomIfs {
			c.Refused = append(c.Refused, fmt.Sprintf(format, args...))
		}
	}
	refused := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, CustomIfAnnotation) {
			continue
		}
		for entry := range strings.SplitSeq(annotations[key], ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if len(c.Refused) == maxCustomIfs {
				break
			}
			i, err := parseCustomIf(entry, mainIf)
			_, twice := c.find(i.Name)
			switch {
			case err != nil:
				refuse("%.64q: %v", entry, err)
				refused[i.Name] = true
			case twice:
				refuse("%.64q: an interface %s is declared already", entry, i.Name)
			case len(c.Interfaces) == maxCustomIfs:
				refuse("%.64q is one too many: a pod has at most %d further interfaces", entry, maxCustomIfs)
			default:
				c.Interfaces = append(c.Interfaces, i)
			}
		}
	}
	if name := annotations[EndpointIfAnnotation]; name != "" && name != mainIf {
		switch i, declared := c.find(name); {
		case !declared && refused[name]:
			refuse("%s names %.32q, which is refused: services use %s", EndpointIfAnnotation, name, mainIf)
		case !declared:
			refuse("%s names %.32q, which %s does not declare: services use %s", EndpointIfAnnotation, name, CustomIfAnnotation, mainIf)
		case i.Network != DefaultNetwork:
			refuse("%s names %s, which is not in the network %s: services use %s", EndpointIfAnnotation, name, DefaultNetwork, mainIf)
		default:
			c.EndpointIf = name
		}
	}
	return c
}

func parseCustomIf(entry, mainIf string) (i CustomIf, err error) {
	parts := strings.Split(entry, "/")
	if len(parts) != 2 && len(parts) != 3 {
		return i, fmt.Errorf("write NAME/TYPE or NAME/TYPE/NETWORK, such as net1/tap")
	}
	i = CustomIf{Name: parts[0], Type: parts[1], Network: DefaultNetwork}
	if len(parts) == 3 {
		i.Network = cmp.Or(parts[2], DefaultNetwork)
	}
	switch {
	case !ifName.MatchString(i.Name):
		err = fmt.Errorf("the name must have 1 to 15 letters, digits, dots, dashes and underscores, with a letter or a digit first")
	case i.Name == mainIf || i.Name == "eth0" || i.Name == "lo" || i.Name == "all" || i.Name == "default":
		err = fmt.Errorf("%s is taken: give the interface another name", i.Name)
	case i.Type == "memif":
		err = fmt.Errorf("type memif is not supported: use tap or veth")
	case i.Type != "tap" && i.Type != "veth":
		err = fmt.Errorf("the type must be tap or veth")
	case i.Network != DefaultNetwork && i.Network != StubNetwork:
		err = fmt.Errorf("custom networks are not supported: use the network %s, or %s for an interface without address", DefaultNetwork, StubNetwork)
	}
	return i, err
}

func (m *PodManager) followAnnotations(ctx context.Context, id PodID) error {
	if _, _, changed := m.declared(id); !changed {
		return nil
	}
	if err := m.loop.PushEvent(ctx, &PodCustomIfUpdate{Pod: id}); err != nil {
		return fmt.Errorf("custom interfaces of pod %v: %w", id, err)
	}
	return nil
}

// declared returns a wired pod and its declared interfaces if they have changed. They have not
// while the pod's object is unknown.
func (m *PodManager) declared(id PodID) (wired *LocalPod, now CustomIfs, changed bool) {
	wired, ok := m.LocalPod(id)
	if !ok {
		return wired, now, false
	}
	kube, known := m.PodOf(wired)
	if !known {
		return wired, now, false
	}
	now = ParseCustomIfs(kube.Annotations, wired.IfName)
	return wired, now, !now.Equal(wired.Custom)
}

func (m *PodManager) declare(ctx context.Context, id PodID) (before CustomIfs) {
	wired, now, changed := m.declared(id)
	if !changed {
		if wired != nil {
			before = wired.Custom
		}
		return before
	}
	log := controller.Logger(ctx, m.log)
	if len(now.Refused) > 0 && !slices.Equal(now.Refused, wired.Custom.Refused) {
		log.Warn("Some custom interfaces of a pod are refused", "pod", id, "refused", strings.Join(now.Refused, "; "))
	}
	next := *wired
	next.Custom = now
	m.setLocal(&next)
	data, err := json.Marshal(&next)
	if err == nil {
		err = m.db.Put(ctx, storeKey(id), data)
	}
	if err != nil {
		log.Error("Storing the custom interfaces of a pod failed", "pod", id, "error", err)
	}
	return wired.Custom
}
