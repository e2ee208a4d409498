package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// policySchema is the schema of cluster network policies, which must be structural: each part has a
// type. It is made strict, so that a missing field is detected.
func policySchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	data, err := os.ReadFile(filepath.Join(Dir(), "contiv-crds.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &definition)
	}
	if err != nil {
		t.Fatal(err)
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	var strict func(path string, s map[string]any)
	strict = func(path string, s map[string]any) {
		if s["type"] == nil {
			t.Errorf("%s has no type", path)
		}
		if properties, ok := s["properties"].(map[string]any); ok {
			s["additionalProperties"] = false
			for name, p := range properties {
				strict(path+"."+name, p.(map[string]any))
			}
		} else if path == ".metadata" {
			s["additionalProperties"] = true
		}
		if items, ok := s["items"].(map[string]any); ok {
			strict(path+"[]", items)
		}
		delete(s, "format")
	}
	strict("", schema)
	compiler := jsonschema.NewCompiler()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err == nil {
		err = compiler.AddResource("policy", document)
	}
	if err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("policy")
}

const goodPolicy = `
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: p}
spec:
  tier: Admin
  priority: 1000
  subject: {namespaces: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d]}]}}
  ingress:
  - name: web
    action: Accept
    from: [{namespaces: {}}, {pods: {namespaceSelector: {}, podSelector: {matchLabels: {a: b}}}}]
    protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {destinationPort: {range: {start: 1, end: 2}}}}, {sctp: {destinationPort: {number: 9}}}, {destinationNamedPort: web}]
  egress:
  - {action: Pass, to: [{nodes: {}}, {networks: [10.0.0.0/8, "fd00::/8"]}, {pods: {podSelector: {}}}]}
  - {action: Deny, to: [{namespaces: {}}]}
status: {conditions: []}
`

func TestDefinitionOfClusterNetworkPolicies(t *testing.T) {
	schema := policySchema(t)
	check := func(text string) error {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	if err := check(goodPolicy); err != nil {
		t.Errorf("refused: %v", err)
	}
	for from, to := range map[string]string{
		"tier: Admin": "tier: Middle", "priority: 1000": "priority: 1001", "action: Accept": "action: Allow", "[{namespaces: {}}]": "[]",
		"subject: {namespaces: {": "subject: {pods: {podSelector: {}}, namespaces: {", "operator: NotIn": "operator: Gt", "{number: 80}": "{number: 0}",
		"{nodes: {}}": "{nodes: {}, networks: [10.0.0.0/8]}", "{number: 9}": "{}", "name: web": "nam: web",
	} {
		text := strings.Replace(goodPolicy, from, to, 1)
		if text == goodPolicy {
			t.Fatalf("%q is not there", from)
		}
		if check(text) == nil {
			t.Errorf("%s is not refused", to)
		}
	}
}
