package models_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/models"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiled(t *testing.T, m *models.Model) *jsonschema.Schema {
	t.Helper()
	data, err := json.Marshal(m.Schema())
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func TestSamplesAreAsTheSchemaOfTheirModel(t *testing.T) {
	for _, m := range models.All() {
		schema := compiled(t, m)
		for _, s := range readSamples(t, filepath.Join("testdata", m.Name()+".txtar")) {
			for _, text := range []string{s.json, s.camel} {
				if err := validate(t, schema, text); err != nil {
					t.Errorf("%s: %v", s.key, err)
				}
			}
		}
	}
}

func TestSchemaRejectsMistakes(t *testing.T) {
	for _, test := range []struct {
		model *models.Model
		text  string
	}{
		{models.VPPInterface, `{"nam":"tap1"}`},
		{models.VPPInterface, `{"name":1}`},
		{models.VPPInterface, `{"name":"tap1","type":"TAPP"}`},
		{models.VPPInterface, `{"name":"tap1","mtu":9217}`},
		{models.VPPInterface, `{"name":"tap1","ip_addresses":["10.1.1.1"]}`},
		{models.VPPInterface, `{"name":"tap1","ipAddresses":"10.1.1.1/24"}`},
		{models.VPPInterface, `{"name":"tap1","tap":{"versoin":2}}`},
		{models.VPPInterface, `{"name":"tap1","tap":{},"memif":{}}`},
		{models.VPPInterface, `{"name":"tap1","vmxNet3":{},"memif":{}}`},
		{models.NAT44Pool, `{"first_ip":"fd00::1"}`},
		{models.VRRP, `{"vr_id":0}`},
		{models.VRFTable, `[]`},
	} {
		if err := validate(t, compiled(t, test.model), test.text); err == nil {
			t.Errorf("%s is allowed in %s", test.text, test.model.ProtoName())
		}
	}
}
