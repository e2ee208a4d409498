package service

import (
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/proxy"
)

// Translator describes the service proxy of this node.
type Translator struct {
	// VSwitch is set if the vswitch translates services.
	VSwitch bool `json:"vswitch"`
	// Setting is the value of services in service.conf.
	Setting string `json:"setting"`
	// OtherProxy is the trace of another service proxy, such as a table of kube-proxy. While it exists,
	// the vswitch does not translate.
	OtherProxy string `json:"others,omitempty"`
	// Since is the time of the first detection by this agent.
	Since time.Time `json:"since,omitzero"`
}

// translators knows who translates services on this node.
type translators struct {
	proxy     *proxy.Proxy           // nil without service proxy
	setting   string                 // services in service.conf
	kubeProxy func() (string, error) // looks for kube-proxy if service.conf leaves services to it
}

// translator returns the service proxy found by the last resync.
func (s translators) translator() Translator {
	if s.proxy == nil {
		return Translator{Setting: config.KubeProxy}
	}
	who, known := s.proxy.OtherProxies.Conflicting()
	t := Translator{VSwitch: known && who == "", Setting: s.setting, OtherProxy: who}
	if who != "" {
		t.Since = s.proxy.OtherProxies.Since()
	}
	return t
}

func (t Translator) left() string {
	return fmt.Sprintf("services on this node are left to kube-proxy since %s, because of %s: if no kube-proxy runs here, remove its rules with kube-proxy --cleanup",
		t.Since.Format("2006-01-02 15:04:05 MST"), t.OtherProxy)
}

func (s translators) notes() []string {
	switch t := s.translator(); {
	case t.Setting == config.Auto && t.OtherProxy != "":
		return []string{t.left()}
	case s.proxy == nil && s.kubeProxy != nil && proxy.Detect(s.kubeProxy) == "":
		return []string{noKubeProxy + ": cluster IPs lead nowhere, unless something else translates them; " + noKubeProxyRemedy}
	}
	return nil
}

const (
	noKubeProxy       = "services are left to kube-proxy (services: kube-proxy in service.conf), and nothing of it is on this node"
	noKubeProxyRemedy = "start kube-proxy, or set services: auto"
)

func (s translators) suspect() string {
	if s.proxy != nil {
		return s.translator().left()
	}
	if s.kubeProxy == nil {
		return "services on this node are left to kube-proxy"
	}
	if who := proxy.Detect(s.kubeProxy); who != "" {
		return fmt.Sprintf("services are left to kube-proxy (services: kube-proxy in service.conf), which does not translate this one, despite %s: check that it runs", who)
	}
	return noKubeProxy + ": " + noKubeProxyRemedy
}

func (s translators) name() string {
	if who := s.translator().OtherProxy; who != "" {
		return "another proxy: found " + who
	}
	return "kube-proxy"
}
