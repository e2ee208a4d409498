package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// contivctl's own renderer gives the same objects for the same values.
func TestContivctlRendersAsHelmDoes(t *testing.T) {
	program := filepath.Join(t.TempDir(), "contivctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/contivctl")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build contivctl: %v: %s", err, out)
	}
	for name, values := range map[string]string{
		"defaults": "",
		"members":  `etcd: {members: [{node: cp1, ip: 192.0.2.1}, {node: cp2, ip: 192.0.2.2}, {node: cp3, ip: "2001:db8::3"}], snapshots: {every: 24h}}`,
		"external": `etcd: {useExternalInstance: true, externalInstance: {endpoints: ["https://etcd.example.com:2379"], secretName: mine}, options: {username: contiv}}`,
		"services": "monitoring: {secretName: metrics, serviceMonitor: {enabled: true, labels: {release: prometheus}}}",
		"others": `
image: {repository: registry.example.com/contiv, tag: v1, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
etcd: {dataDir: /data/etcd/contiv, service: {nodePort: 30001}, quotaMiB: 8192, nodeSelector: {a: b}}
cni: {chain: [portmap, bandwidth]}
vswitch: {enableInterfaceStats: false}
monitoring: {secretName: metrics, podMonitor: {enabled: true}, alerts: {enabled: true}, dashboard: {enabled: true}}
controller: {periodicHealingInterval: 30000000000, delayRetry: 2s}
contiv: {natExternalTraffic: false, ipamConfig: {podSubnetCIDR: 10.9.0.0/16}, nodeConfig: [{nodeName: node2, gateway: 192.0.2.9}]}
vpp: {enabled: true, config: {workers: 2}}`,
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
			t.Fatal(err)
		}
		dryRun := exec.CommandContext(t.Context(), program, "install", "--dry-run", "--values", file)
		dryRun.Stderr = os.Stderr
		out, err := dryRun.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := objects(t, map[string]string{"contivctl": string(out)})
		rendered := mustRender(t, values)
		delete(rendered, "tests/network.yaml")
		delete(rendered, "NOTES.txt")
		want := objects(t, rendered)
		for key, object := range want {
			if !reflect.DeepEqual(got[key], object) {
				t.Errorf("%s: %s is by Helm\n%v\nby contivctl\n%v", name, key, object, got[key])
			}
			delete(got, key)
		}
		for key := range got {
			if !strings.HasPrefix(key, "CustomResourceDefinition ") { // Helm takes them as they are
				t.Errorf("%s: contivctl makes %s, too", name, key)
			}
		}
	}
}

// objects returns the rendered objects by kind and name, without the annotation with different
// hashes.
func objects(t *testing.T, rendered map[string]string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, text := range rendered {
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document+"\n"), &object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if object == nil {
				continue
			}
			if spec, ok := object["spec"].(map[string]any); ok {
				if template, ok := spec["template"].(map[string]any); ok {
					if annotations, ok := template["metadata"].(map[string]any)["annotations"].(map[string]any); ok {
						delete(annotations, "contivpp.io/config")
					}
				}
			}
			found[object["kind"].(string)+" "+object["metadata"].(map[string]any)["name"].(string)] = object
		}
	}
	return found
}
