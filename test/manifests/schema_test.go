package manifests

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	service "github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
)

var update = flag.Bool("update", false, "write the schema of the chart's values")

// values are the chart's values. A value for a file of the ConfigMaps has the type that reads the
// file.
type values struct {
	Global           map[string]any    `json:"global" about:"for charts that have this one as a part"`
	Image            image             `json:"image" about:"of everything but VPP"`
	ImagePullSecrets []pullSecret      `json:"imagePullSecrets" about:"Secrets to pull the images with"`
	APIServer        string            `json:"apiServer" about:"address of the API server for a cluster without kube-proxy, such as https://192.168.16.254:6443"`
	Contiv           contivconf.Config `json:"contiv" about:"contiv.conf, the configuration of the network"`
	Controller       controller.Config `json:"controller" about:"controller.conf, the event loop of agents"`
	Service          service.Config    `json:"service" about:"service.conf, the implementation of services"`
	Etcd             struct {
		UseExternalInstance bool `json:"useExternalInstance" about:"leave contiv-etcd out: the etcd is yours"`
		ExternalInstance    struct {
			Endpoints  []string `json:"endpoints" about:"URLs of its members"`
			SecretName string   `json:"secretName" about:"Secret with ca.pem, client.pem and client-key.pem" pattern:"."`
		} `json:"externalInstance" about:"your etcd"`
		Options etcd.Config `json:"options" about:"options of etcd.conf, which replace the chart's"`
		Service struct {
			NodePort int `json:"nodePort" about:"port of all nodes where etcd is reached" minimum:"1024" maximum:"65535"`
		} `json:"service" about:"how etcd is reached"`
		DataDir   string       `json:"dataDir" about:"directory of the node that contiv-etcd runs on" pattern:"^/.+/.+"`
		Members   []etcdMember `json:"members" about:"nodes that contiv-etcd runs on, three or five; empty: one, by nodeSelector"`
		QuotaMiB  int          `json:"quotaMiB" about:"size at which etcd refuses writes" minimum:"16" maximum:"8192"`
		Snapshots struct {
			Every string `json:"every" about:"how often all data are backed up on the node, such as 24h; empty: never" pattern:"^([0-9]+[hm])*$"`
			Keep  int    `json:"keep" about:"how many backups are kept" minimum:"1" maximum:"1000"`
			Dir   string `json:"dir" about:"directory of the node for backups" pattern:"^/.+"`
		} `json:"snapshots" about:"scheduled backups of etcd"`
		NodeSelector map[string]string `json:"nodeSelector" about:"labels of the node that contiv-etcd runs on"`
		Resources    map[string]any    `json:"resources" about:"requests and limits of contiv-etcd"`
	} `json:"etcd" about:"etcd, in which the cluster meets"`
	KSR struct {
		NodeSelector map[string]string `json:"nodeSelector" about:"labels of the nodes that contiv-ksr runs on"`
		Resources    map[string]any    `json:"resources" about:"requests and limits of contiv-ksr"`
	} `json:"ksr" about:"contiv-ksr, which reflects Kubernetes into etcd"`
	VSwitch struct {
		EnableInterfaceStats bool           `json:"enableInterfaceStats" about:"export the counters of each interface as metrics"`
		Resources            map[string]any `json:"resources" about:"requests and limits of the agent"`
	} `json:"vswitch" about:"the agent on nodes with the kernel as vswitch"`
	CNI struct {
		Chain   []string `json:"chain" about:"plugins that run after Contiv's, if the node has them"`
		BinDir  string   `json:"binDir" about:"directory of the node for CNI plugins" pattern:"^/."`
		ConfDir string   `json:"confDir" about:"directory of the node for the configuration of CNI" pattern:"^/."`
	} `json:"cni" about:"the CNI plugin"`
	Bolt struct {
		DataDir string `json:"dataDir" about:"directory of each node for the agent's copy of etcd" pattern:"^/."`
	} `json:"bolt" about:"the agent's copy of etcd"`
	Logs struct {
		DefaultLevel string `json:"defaultLevel" about:"log level of agents" enum:"DEBUG INFO WARN ERROR"`
	} `json:"logs" about:"logs"`
	Monitoring struct {
		SecretName     string  `json:"secretName" about:"Secret with tls.crt, tls.key and ca.crt, by which agents and KSR serve their metrics at a port of their nodes; empty: on loopback only"`
		Port           int     `json:"port" about:"port of all nodes for the metrics of agents" minimum:"1024" maximum:"65535"`
		KSRPort        int     `json:"ksrPort" about:"port of the nodes of KSR for its metrics" minimum:"1024" maximum:"65535"`
		ServerName     string  `json:"serverName" about:"server name in the certificate of agents and KSR" pattern:"."`
		PodMonitor     monitor `json:"podMonitor" about:"create a PodMonitor: the Prometheus operator scrapes agents and KSR"`
		ServiceMonitor monitor `json:"serviceMonitor" about:"the Prometheus operator scrapes agents and KSR, which it finds by headless Services"`
		Alerts         struct {
			Enabled bool              `json:"enabled" about:"make a PrometheusRule"`
			Labels  map[string]string `json:"labels" about:"labels by which a Prometheus chooses it"`
		} `json:"alerts" about:"alert rules for the Prometheus operator"`
		Dashboard struct {
			Enabled bool              `json:"enabled" about:"make a ConfigMap with the dashboard"`
			Labels  map[string]string `json:"labels" about:"labels by which Grafana's sidecar finds it"`
		} `json:"dashboard" about:"a dashboard for Grafana"`
	} `json:"monitoring" about:"Prometheus and Grafana"`
	VPP struct {
		Enabled    bool           `json:"enabled" about:"also install the objects for nodes with the label contivpp.io/vswitch=vpp"`
		Image      image          `json:"image" about:"with VPP"`
		Config     startup.Config `json:"config" about:"vpp.conf, how VPP is started"`
		Privileged bool           `json:"privileged" about:"give the container all devices and capabilities of the node; false: only the capabilities that VPP and its agent need, without DPDK"`
		Resources  map[string]any `json:"resources" about:"requests and limits of VPP with its agent"`
	} `json:"vpp" about:"nodes with FD.io VPP as vswitch"`
}

// monitor is a PodMonitor or a ServiceMonitor.
type monitor struct {
	Enabled          bool              `json:"enabled" about:"make it"`
	Labels           map[string]string `json:"labels" about:"labels by which a Prometheus chooses it"`
	Interval         string            `json:"interval" about:"how often each pod is scraped" pattern:"^([0-9]+(ms|s|m|h))+$"`
	ClientSecretName string            `json:"clientSecretName" about:"Secret with tls.crt and tls.key of Prometheus, and ca.crt; empty: secretName"`
}

type etcdMember struct {
	Node string `json:"node" about:"name of the node" pattern:"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"`
	IP   string `json:"ip" about:"address of the node" pattern:"^[0-9a-fA-F.:]+$"`
}

type image struct {
	Repository string `json:"repository" about:"name without tag" pattern:"."`
	Tag        string `json:"tag" about:"version" pattern:"."`
	PullPolicy string `json:"pullPolicy" about:"when it is pulled" enum:"Always IfNotPresent Never"`
}

type pullSecret struct {
	Name string `json:"name" about:"name of the Secret" pattern:"."`
}

// choices maps options in files to their few allowed values.
var choices = map[string][]string{
	"nodeToNodeTransport": {"vxlan", "nooverlay", "srv6"},
	"interfaceRxMode":     {"", "default", "polling", "interrupt", "adaptive"},
	"services":            {service.Auto, service.KubeProxy, service.VSwitch},
	"hugepages":           {"", "2M", "1G"},
}

// The chart's schema has each option of each file with its documentation.
func TestSchemaOfTheChart(t *testing.T) {
	s := schemas{t: t, about: documentedOptions(t)}
	s.defaults = map[reflect.Type]map[string]any{
		reflect.TypeFor[contivconf.Config](): jsonOf(t, contivconf.Default()),
		reflect.TypeFor[controller.Config](): jsonOf(t, controller.DefaultConfig()),
		reflect.TypeFor[service.Config]():    jsonOf(t, service.Default()),
	}
	schema := s.object(reflect.TypeFor[values](), nil)
	schema["$schema"] = "http://json-schema.org/draft-07/schema#"
	schema["title"] = "Values of Contiv's chart"
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(Dir(), "chart/values.schema.json")
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, text.Bytes()) {
		t.Errorf("%s does not have the existing options: run make manifests (%v)", file, err)
	}
}

// schemas generates JSON schemas of Go types.
type schemas struct {
	t testing.TB
	// about holds the documentation by option name.
	about map[string]string
	// defaults of the file types, as JSON.
	defaults map[reflect.Type]map[string]any
}

func (s schemas) object(typ reflect.Type, defaults map[string]any) map[string]any {
	if d := s.defaults[typ]; d != nil {
		defaults = d
	}
	properties := map[string]any{}
	s.fields(typ, defaults, properties)
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func (s schemas) fields(typ reflect.Type, defaults, properties map[string]any) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case name == "" && field.Anonymous:
			s.fields(field.Type, defaults, properties)
			continue
		case name == "":
			s.t.Fatalf("%s.%s has no name in JSON", typ, field.Name)
		}
		property := s.of(field.Type, defaults[name])
		about := field.Tag.Get("about")
		if about == "" {
			about = s.about[name]
		}
		if about != "" {
			property["description"] = about
		} else if s.defaults[typ] != nil && property["type"] != "object" && property["type"] != "array" { // these have options of their own
			s.t.Errorf("%s is in no table of the documentation", name)
		}
		if d := defaults[name]; d != nil && property["type"] != "object" {
			property["default"] = d
		}
		for _, limit := range []string{"minimum", "maximum"} {
			if n, err := json.Number(field.Tag.Get(limit)).Int64(); err == nil {
				property[limit] = n
			}
		}
		if pattern := field.Tag.Get("pattern"); pattern != "" {
			property["pattern"] = pattern
		}
		if list := strings.Fields(field.Tag.Get("enum")); len(list) > 0 {
			property["enum"] = list
		}
		if list := choices[name]; list != nil && property["type"] == "string" {
			property["enum"] = list
		}
		properties[name] = property
	}
}

func (s schemas) of(typ reflect.Type, value any) map[string]any {
	if typ == reflect.TypeFor[config.Duration]() {
		return map[string]any{"type": []string{"string", "integer"}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return s.of(typ.Elem(), value)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return map[string]any{"type": "integer", "minimum": 0, "maximum": uint64(1)<<typ.Bits() - 1}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(typ.Elem(), nil)}
	case reflect.Map:
		if typ.Elem().Kind() == reflect.Interface {
			return map[string]any{"type": "object"}
		}
		return map[string]any{"type": "object", "additionalProperties": s.of(typ.Elem(), nil)}
	case reflect.Struct:
		defaults, _ := value.(map[string]any)
		return s.object(typ, defaults)
	}
	s.t.Fatalf("values of type %s have no schema", typ)
	return nil
}

// The tables of options have the defaults of the code.
func TestDocumentedDefaults(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(Dir(), "../docs/reference/options.md"))
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{}
	for _, file := range []any{contivconf.Default(), controller.DefaultConfig(), service.Default()} {
		flatten("", jsonOf(t, file), defaults)
	}
	row := regexp.MustCompile("(?m)^\\| `([^|]+)` \\| ([^|]*?) ?\\| [^|]+ \\|$")
	checked := 0
	for _, cells := range row.FindAllStringSubmatch(string(data), -1) {
		names, documented := strings.Split(cells[1], "`, `"), strings.Split(cells[2], ", ")
		for i, name := range names {
			is, has := defaults[name]
			if !has {
				continue // of another file, or without a default
			}
			checked++
			if text := strings.Trim(documented[min(i, len(documented)-1)], "`"); !sameDefault(text, is) {
				t.Errorf("docs/reference/options.md: the default of %s is %v, not %q", name, is, text)
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d options were checked", checked)
	}
}

func flatten(prefix string, from, to map[string]any) {
	for name, value := range from {
		switch nested, is := value.(map[string]any); {
		case name == "conntrack":
			flatten("conntrack.", nested, to)
		case is:
			flatten("", nested, to)
		default:
			to[prefix+name] = value
		}
	}
}

func sameDefault(documented string, is any) bool {
	have := fmt.Sprint(is)
	a, errA := time.ParseDuration(documented)
	b, errB := time.ParseDuration(have)
	return documented == have || errA == nil && errB == nil && a == b
}

// documentedOptions reads the tables of docs/reference/options.md: | `key`, `key` | default | meaning |
func documentedOptions(t *testing.T) map[string]string {
	t.Helper()
	about := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| ((?:`[A-Za-z.0-9-]+`(?:, )?)+) \\|(?:.*?\\|)? (.+?) \\|$")
	key := regexp.MustCompile("`([^`]+)`")
	link := regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
	data, err := os.ReadFile(filepath.Join(Dir(), "../docs/reference/options.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cells := range row.FindAllStringSubmatch(string(data), -1) {
		for _, name := range key.FindAllStringSubmatch(cells[1], -1) {
			short := name[1][strings.LastIndex(name[1], ".")+1:]
			if about[short] == "" {
				about[short] = strings.ReplaceAll(link.ReplaceAllString(cells[2], "$1"), "`", "")
			}
		}
	}
	return about
}

func jsonOf(t *testing.T, v any) (values map[string]any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &values)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("%T: %w", v, err))
	}
	return values
}
