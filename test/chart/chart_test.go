// Package chart tests deploy/chart with Helm's own engine. It is a separate module, because Contiv
// does not link Helm.
package chart

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	deploy = "../../deploy"
	dir    = deploy + "/chart"
)

var update = flag.Bool("update", false, "write the manifests that the chart renders")

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the templates with values (YAML), by file name below templates.
func render(t *testing.T, values string) (map[string]string, error) {
	t.Helper()
	parsed, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	c := load(t)
	release := chartutil.ReleaseOptions{Name: "contiv", Namespace: "kube-system", IsInstall: true}
	all, err := chartutil.ToRenderValues(c, parsed, release, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, all)
	files := map[string]string{}
	for name, text := range rendered {
		if strings.TrimSpace(text) != "" {
			files[strings.TrimPrefix(name, "contiv/templates/")] = text
		}
	}
	return files, err
}

func mustRender(t *testing.T, values string) map[string]string {
	t.Helper()
	files, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// deploy/*.yaml, which kubectl applies, are identical to Helm's rendering.
func TestManifestsAreWhatTheChartRenders(t *testing.T) {
	byDefault, withVPP := mustRender(t, ""), mustRender(t, "vpp: {enabled: true}")
	if byDefault["contiv-vpp.yaml"] != "" {
		t.Error("VPP is installed without request")
	}
	definitions, err := filepath.Glob(deploy + "/chart/crds/*.yaml")
	if err != nil || len(definitions) == 0 {
		t.Fatalf("no definitions of resources: %v", err)
	}
	for _, file := range definitions { // Helm installs them as they are
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		withVPP[filepath.Base(file)] = string(text)
	}
	var manifests []string
	for name, text := range withVPP {
		if strings.Contains(name, "/") || filepath.Ext(name) != ".yaml" {
			continue
		}
		manifests = append(manifests, name)
		if plain := byDefault[name]; plain != "" && plain != text {
			t.Errorf("%s differs with VPP", name)
		}
		file := filepath.Join(deploy, name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != text {
			t.Errorf("%s differs from the rendered deploy/chart: change the chart and run make manifests (%v)", file, err)
		}
	}
	files, err := filepath.Glob(deploy + "/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	slices.Sort(manifests)
	if !slices.Equal(files, manifests) {
		t.Errorf("deploy has %v, the chart renders %v", files, manifests)
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	for values, reason := range map[string]string{
		`etcd: {members: [{node: a, ip: 192.0.2.1}, {node: b, ip: 192.0.2.2}]}`: "odd number",
		`etcd: {members: [{node: a}, {node: b, ip: "x.example"}]}`:              "ip",
		"contiv: {mtuSise: 1400}":                  "mtuSise",
		"contiv: {ipamConfig: {podSubnetCidr: x}}": "podSubnetCidr",
		"contiv: {mtuSize: big}":                   "/contiv/mtuSize",
		"contiv: {nodeConfig: [{name: a}]}":        "name",
		"contiv: {nodeToNodeTransport: geneve}":    "/contiv/nodeToNodeTransport",
		"controller: {periodicHealing: true}":      "periodicHealing",
		"service: {services: iptables}":            "/service/services",
		"etcd: {options: {dialTimeout: 5s}}":       "dialTimeout",
		"etcd: {service: {nodePort: 80}}":          "/etcd/service/nodePort",
		"etcd: {dataDir: var/etcd/x}":              "/etcd/dataDir",
		"vpp: {config: {worker: 1}}":               "worker",
		"logs: {defaultLevel: verbose}":            "/logs/defaultLevel",
		"image: contiv:1":                          "/image",
		"telemetry: {disabled: true}":              "telemetry",
		"etcd: {useExternalInstance: true}":        "externalInstance.endpoints",
		`vpp: {enabled: true, privileged: false, config: {dpdkDevices: ["0000:00:08.0"]}}`: "vpp.privileged",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, which does not name %s", values, err, reason)
		}
	}
}

// document returns the rendered object of a kind and name.
func document(t *testing.T, files map[string]string, kind, name string) map[string]any {
	t.Helper()
	for _, text := range files {
		for _, document := range strings.Split(text, "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if metadata, _ := object["metadata"].(map[string]any); object["kind"] == kind && metadata["name"] == name {
				return object
			}
		}
	}
	return nil
}

// files returns the data of a ConfigMap.
func files(t *testing.T, rendered map[string]string, configMap string) map[string]any {
	t.Helper()
	data, _ := document(t, rendered, "ConfigMap", configMap)["data"].(map[string]any)
	if data == nil {
		t.Fatalf("no ConfigMap %s", configMap)
	}
	return data
}

func config(t *testing.T, rendered map[string]string, configMap, file string) (values map[string]any) {
	t.Helper()
	text, _ := files(t, rendered, configMap)[file].(string)
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatalf("%s: %v in\n%s", file, err, text)
	}
	return values
}

// Every option in the schema reaches its file unchanged.
func TestOptionsReachTheirFiles(t *testing.T) {
	schema := schema(t)
	for _, at := range []struct{ path, configMap, file string }{
		{"contiv", "contiv-config", "contiv.conf"},
		{"controller", "contiv-config", "controller.conf"},
		{"service", "contiv-config", "service.conf"},
		{"etcd.options", "contiv-config", "etcd.conf"},
		{"vpp.config", "contiv-vpp-config", "vpp.conf"},
	} {
		node := schema
		for name := range strings.SplitSeq(at.path, ".") {
			node = node["properties"].(map[string]any)[name].(map[string]any)
		}
		given := example(node).(map[string]any)
		if len(given) < 4 {
			t.Errorf("%s: only %d options", at.path, len(given))
		}
		values := map[string]any{"vpp": map[string]any{"enabled": true}}
		into := values
		names := strings.Split(at.path, ".")
		for _, name := range names[:len(names)-1] {
			if into[name] == nil {
				into[name] = map[string]any{}
			}
			into = into[name].(map[string]any)
		}
		into[names[len(names)-1]] = given
		text, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		got := config(t, mustRender(t, string(text)), at.configMap, at.file)
		for _, name := range slices.Sorted(maps.Keys(given)) {
			want, _ := yaml.Marshal(given[name])
			have, _ := yaml.Marshal(got[name])
			if string(want) != string(have) {
				t.Errorf("%s.%s: given %s, in %s: %s", at.path, name, want, at.file, have)
			}
		}
	}
}

func schema(t *testing.T) (schema map[string]any) {
	t.Helper()
	data, err := os.ReadFile(dir + "/values.schema.json")
	if err == nil {
		err = yaml.Unmarshal(data, &schema)
	}
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// example returns a value allowed by a schema, usually not the default.
func example(schema map[string]any) any {
	if values, ok := schema["enum"].([]any); ok {
		return values[len(values)-1]
	}
	kind := schema["type"]
	if kinds, ok := kind.([]any); ok {
		kind = kinds[0]
	}
	switch kind {
	case "object":
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for name, property := range properties {
			object[name] = example(property.(map[string]any))
		}
		if values, ok := schema["additionalProperties"].(map[string]any); ok {
			object["some"] = example(values)
		}
		return object
	case "array":
		return []any{example(schema["items"].(map[string]any))}
	case "integer":
		if limit, ok := schema["maximum"].(float64); ok {
			return limit
		}
		return 3000000000
	case "boolean":
		return schema["default"] != true
	}
	return "some"
}

func TestDurationsInNanoseconds(t *testing.T) {
	rendered := mustRender(t, "controller: {periodicHealingInterval: 30000000000, delayRetry: 2s}")
	if text := files(t, rendered, "contiv-config")["controller.conf"]; text != "delayRetry: 2s\nperiodicHealingInterval: 30000000000\n" {
		t.Errorf("controller.conf is %q", text)
	}
}

func TestExternalEtcd(t *testing.T) {
	rendered := mustRender(t, `
etcd:
  useExternalInstance: true
  externalInstance: {endpoints: ["https://etcd.example.com:2379"], secretName: mine}
  options: {username: contiv}`)
	for _, kind := range []string{"StatefulSet", "Service"} {
		if document(t, rendered, kind, "contiv-etcd") != nil {
			t.Errorf("found a %s contiv-etcd", kind)
		}
	}
	if !strings.Contains(rendered["contiv.yaml"], "secretName: mine,") {
		t.Error("the Secret is not mounted")
	}
	got := config(t, rendered, "contiv-config", "etcd.conf")
	for key, want := range map[string]string{"username": "contiv", "ca-file": "/etc/contiv-etcd/ca.pem", "key-file": "/etc/contiv-etcd/client-key.pem"} {
		if got[key] != want {
			t.Errorf("%s is %v, not %s", key, got[key], want)
		}
	}
	if got["server-name"] != nil {
		t.Errorf("the server's name is %v", got["server-name"])
	}
	plain := config(t, mustRender(t, `
etcd:
  useExternalInstance: true
  options: {endpoints: ["http://192.0.2.1:2379"], insecure-transport: true}`), "contiv-config", "etcd.conf")
	if plain["ca-file"] != nil {
		t.Errorf("files without TLS: %v", plain)
	}
}

// Pods are replaced exactly when their configuration changes.
func TestPodsFollowTheConfiguration(t *testing.T) {
	annotations := func(values string) map[string]any {
		found := map[string]any{}
		rendered := mustRender(t, values)
		for _, name := range []string{"contiv-agent", "contiv-ksr", "contiv-vpp"} {
			spec := document(t, rendered, "DaemonSet", name)["spec"].(map[string]any)
			found[name] = spec["template"].(map[string]any)["metadata"].(map[string]any)["annotations"].(map[string]any)["contivpp.io/config"]
		}
		return found
	}
	before := annotations("vpp: {enabled: true}")
	same := annotations("{vpp: {enabled: true}, image: {tag: other}}")
	all := annotations("{vpp: {enabled: true}, contiv: {mtuSize: 1400}}")
	onlyVPP := annotations("{vpp: {enabled: true, config: {workers: 2}}}")
	for name := range before {
		if before[name] != same[name] || before[name] == all[name] || (before[name] != onlyVPP[name]) != (name == "contiv-vpp") {
			t.Errorf("%s: %v, of another image %v, of another MTU %v, with workers %v", name, before[name], same[name], all[name], onlyVPP[name])
		}
	}
}

// Pods use the paths and images from the values.
func TestMembersOfEtcd(t *testing.T) {
	text := mustRender(t, `etcd: {members: [{node: cp1, ip: 192.0.2.1}, {node: cp2, ip: 192.0.2.2}, {node: cp3, ip: "2001:db8::3"}]}`)["contiv.yaml"]
	for _, want := range []string{
		"replicas: 3\n", "--name=$NODE_NAME --member=cp1=https://192.0.2.1:12380 --member=cp2=https://192.0.2.2:12380 --member=cp3=https://[2001:db8::3]:12380 --listen-health",
		`values: ["cp1","cp2","cp3"]`, "kind: PodDisruptionBudget", "podAntiAffinity",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if one := mustRender(t, "")["contiv.yaml"]; strings.Contains(one, "PodDisruptionBudget") {
		t.Error("a node with the only member could never be drained")
	}
}

// Objects for Prometheus and Grafana are optional and off by default.
func TestMonitoring(t *testing.T) {
	if files := mustRender(t, ""); files["contiv-monitoring.yaml"] != "" || strings.Contains(files["contiv.yaml"], "CONTIV_AGENT_METRICS") {
		t.Error("the defaults have monitoring")
	}
	rendered := mustRender(t, `
vpp: {enabled: true}
monitoring:
  secretName: metrics
  port: 19998
  podMonitor: {enabled: true, labels: {release: prometheus}, clientSecretName: prometheus}
  alerts: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}`)
	for _, want := range []string{
		`- {name: CONTIV_AGENT_METRICS, value: ":19998"}`, "- {name: metrics, containerPort: 19998}",
		"- {name: metrics, secret: {secretName: metrics, optional: true, defaultMode: 0400}}",
	} {
		for _, file := range []string{"contiv.yaml", "contiv-vpp.yaml"} {
			if strings.Count(rendered[file], want) != 1 {
				t.Errorf("%s lacks %s", file, want)
			}
		}
	}
	for _, want := range []string{
		`"--metrics=:9997"`, "- {name: metrics, containerPort: 9997}", "- {name: metrics, secret: {secretName: metrics, optional: true, defaultMode: 0440}}",
		"fsGroup: 65534",
	} {
		if strings.Count(rendered["contiv.yaml"], want) != 1 {
			t.Errorf("KSR lacks %s", want)
		}
	}
	for file, containers := range map[string]int{"contiv.yaml": 2, "contiv-vpp.yaml": 1} {
		if n := strings.Count(rendered[file], "- {name: metrics, mountPath: /etc/contiv-metrics}"); n != containers {
			t.Errorf("%d containers of %s have the certificate, not %d", n, file, containers)
		}
	}
	checkMonitors(t, rendered, "PodMonitor")
	if strings.Contains(rendered["contiv-monitoring.yaml"], "kind: Service") {
		t.Error("unneeded Services for monitoring")
	}
	var rules map[string]any
	text, err := os.ReadFile(dir + "/monitoring/contiv-alerts.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if got := document(t, rendered, "PrometheusRule", "contiv")["spec"]; err != nil || !reflect.DeepEqual(got, any(rules)) {
		t.Errorf("the alert rules are %v (%v)", got, err)
	}
	dashboard, err := os.ReadFile(dir + "/monitoring/contiv-dashboard.json")
	if got := files(t, rendered, "contiv-dashboard")["contiv-dashboard.json"]; err != nil || strings.TrimSpace(got.(string)) != strings.TrimSpace(string(dashboard)) {
		t.Errorf("the dashboard is %v (%v)", got, err)
	}
	for _, kind := range []string{"podMonitor", "serviceMonitor"} {
		if _, err := render(t, "monitoring: {"+kind+": {enabled: true}}"); err == nil || !strings.Contains(err.Error(), "monitoring.secretName") {
			t.Errorf("a %s for loopback listeners: %v", kind, err)
		}
	}
	if _, err := render(t, "monitoring: {secretName: metrics, podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}"); err == nil || !strings.Contains(err.Error(), "enable one of them") {
		t.Errorf("both monitors: %v", err)
	}
}

// checkMonitors checks the Prometheus operator's objects for scraping agents and KSR.
func checkMonitors(t *testing.T, rendered map[string]string, kind string) {
	t.Helper()
	for job, apps := range map[string][]string{"contiv-agent": {"contiv-agent", "contiv-vpp"}, "contiv-ksr": {"contiv-ksr"}} {
		monitor := document(t, rendered, kind, job)
		spec, _ := yaml.Marshal(monitor["spec"])
		for _, want := range append([]string{"port: metrics\n", "path: /metrics\n", "scheme: https\n", "name: prometheus\n", "serverName: contiv-agent\n", "replacement: " + job + "\n"}, apps...) {
			if !strings.Contains(string(spec), want) {
				t.Errorf("the %s %s lacks %q: %s", kind, job, want, spec)
			}
		}
		if labels := monitor["metadata"].(map[string]any)["labels"].(map[string]any); labels["release"] != "prometheus" {
			t.Errorf("labels of the %s %s are %v", kind, job, labels)
		}
	}
}

// A ServiceMonitor finds the pods by headless Services with the pods' ports.
func TestServiceMonitor(t *testing.T) {
	const monitoring = `
monitoring:
  secretName: metrics
  port: 19998
  ksrPort: 19997
  serviceMonitor: {enabled: true, labels: {release: prometheus}, clientSecretName: prometheus}`
	rendered := mustRender(t, "vpp: {enabled: true}"+monitoring)
	checkMonitors(t, rendered, "ServiceMonitor")
	for app, port := range map[string]int{"contiv-agent": 19998, "contiv-vpp": 19998, "contiv-ksr": 19997} {
		service := document(t, rendered, "Service", app+"-metrics")
		want := map[string]any{
			"clusterIP": "None", "selector": map[string]any{"app": app},
			"ports": []any{map[string]any{"name": "metrics", "port": float64(port)}},
		}
		if spec := service["spec"]; !reflect.DeepEqual(spec, any(want)) {
			t.Errorf("the Service of %s is %v, not %v", app, spec, want)
		}
		if labels := service["metadata"].(map[string]any)["labels"]; !reflect.DeepEqual(labels, any(map[string]any{"app": app})) {
			t.Errorf("the monitor does not find the Service of %s by %v", app, labels)
		}
		pods := document(t, rendered, "DaemonSet", app)["spec"].(map[string]any)["template"].(map[string]any)
		if labels := pods["metadata"].(map[string]any)["labels"].(map[string]any); labels["app"] != app {
			t.Errorf("pods of %s have the labels %v", app, labels)
		}
		container := pods["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		if want := []any{map[string]any{"name": "metrics", "containerPort": float64(port)}}; !reflect.DeepEqual(container["ports"], any(want)) {
			t.Errorf("ports of %s: %v", app, container["ports"])
		}
	}
	if strings.Contains(mustRender(t, monitoring)["contiv-monitoring.yaml"], "contiv-vpp-metrics") {
		t.Error("a Service for VPP pods without VPP")
	}
}

func TestOtherPlaces(t *testing.T) {
	rendered := mustRender(t, `
image: {repository: registry.example.com/contiv, tag: v1, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
etcd: {dataDir: /data/etcd/contiv, snapshots: {every: 24h, dir: /backups, keep: 3}, service: {nodePort: 30001}}
bolt: {dataDir: /data/bolt}
cni: {binDir: /usr/libexec/cni, confDir: /etc/kubernetes/cni/net.d, chain: [portmap]}
logs: {defaultLevel: DEBUG}
vswitch: {enableInterfaceStats: false}
vpp: {enabled: true, image: {tag: v2}}`)
	text := rendered["contiv.yaml"] + rendered["contiv-vpp.yaml"]
	for want, times := range map[string]int{
		"image: registry.example.com/contiv:v1\n":                           7, // etcd and the preparation of its data, KSR, agent, its credentials and CNI; credentials of VPP
		"image: docker.io/contiv/contiv-vpp:v2\n":                           2,
		"imagePullPolicy: Always\n":                                         7,
		"imagePullSecrets:\n        - name: pull\n":                         4,
		"path: /data/etcd,":                                                 1,
		"mountPath: /data/etcd}":                                            2,
		" --snapshot-every=24h --snapshot-dir=/backups --snapshot-keep=3\n": 1,
		", --snapshot-dir=/backups]":                                        1,
		"mountPath: /backups}":                                              2,
		"path: /backups,":                                                   1,
		"--data-dir=/data/etcd/contiv":                                      2,
		"https://${HOST_IP}:30001":                                          1,
		"nodePort: 30001}":                                                  1,
		"path: /data/bolt,":                                                 2,
		"path: /usr/libexec/cni,":                                           2,
		"path: /etc/kubernetes/cni/net.d,":                                  2,
		`"--chain=portmap"`:                                                 2,
		"{name: CONTIV_AGENT_LOG_LEVEL, value: DEBUG}":                      2,
		`{name: CONTIV_AGENT_INTERFACE_STATS, value: "false"}`:              2,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q is there %d times, not %d", want, n, times)
		}
	}
}
