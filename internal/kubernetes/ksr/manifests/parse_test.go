package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
)

func describe(p parsed) (out []string) {
	for _, o := range p.objects {
		ref, _ := ksr.RefOf(o.object)
		out = append(out, fmt.Sprintf("%d: %s", o.document, ref))
	}
	return out
}

func texts(problems []Problem) (out []string) {
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

func TestParseFindsTheObjects(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"one document", pod, []string{"1: pod default/a"}},
		{"namespace given", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: prod}\n", []string{"1: pod prod/a"}},
		{"kinds without namespace", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: prod}\n",
			[]string{"1: node n1", "2: namespace prod"}},
		{"kinds of other API groups", "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny, namespace: prod}\n---\n" +
			"apiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1}\naddressType: IPv4\nendpoints: []\n",
			[]string{"1: policy prod/deny", "2: service default/web", "3: endpointslice default/web-1"}},
		{"separator first", "---\n" + pod, []string{"1: pod default/a"}},
		{"separator last", pod + "---\n", []string{"1: pod default/a"}},
		{"comment first", "# hello\n---\n" + pod, []string{"1: pod default/a"}},
		{"empty documents are counted", "---\n---\n# nothing\n---\n" + pod, []string{"3: pod default/a"}},
		{"separator with comment", pod + "--- # second\n" + strings.Replace(pod, "a}", "b}", 1), []string{"1: pod default/a", "2: pod default/b"}},
		{"document on the separator's line", "--- {apiVersion: v1, kind: Pod, metadata: {name: a}}", []string{"1: pod default/a"}},
		{"dashes in a text", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    x: |\n      --- no separator\n    y: |-\n      ----\n", []string{"1: pod default/a"}},
		{"Windows line ends", strings.ReplaceAll(pod+"---\n"+strings.Replace(pod, "a}", "b}", 1), "\n", "\r\n"), []string{"1: pod default/a", "2: pod default/b"}},
		{"byte order mark", "\xef\xbb\xbf" + pod, []string{"1: pod default/a"}},
		{"JSON", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, []string{"1: pod default/a"}},
		{"JSON values in a row", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}} {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`,
			[]string{"1: pod default/a", "2: pod default/b"}},
		{"List of several kinds", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: n1}\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n",
			[]string{"1: node n1", "1: pod default/a"}},
		{"typed list with untyped items", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- metadata: {name: b}\n",
			[]string{"1: pod default/a", "1: pod default/b"}},
		{"empty list", "apiVersion: v1\nkind: List\nitems: []\n", nil},
		{"comments only", "# nothing here now\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse("f.yaml", []byte(c.text))
			if len(p.errors) > 0 {
				t.Fatal(texts(p.errors))
			}
			if got := describe(p); strings.Join(got, ", ") != strings.Join(c.want, ", ") {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParseErrorsNameFileDocumentAndReason(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n"
	for _, c := range []struct{ name, text, want string }{
		{"no YAML", pod + "apiVersion: v1\nkind: [\n", "f.yaml: document 2: invalid YAML: line 6:"},
		{"key twice", pod + "kind: Pod\nkind: Node\n", `f.yaml: document 2: invalid YAML: line 6: key "kind" already set`},
		{"truncated JSON", `{"apiVersion":"v1","kind":"Pod"`, "f.yaml: document 1: invalid YAML:"},
		{"a text", "hello\n", "f.yaml: document 1: not a Kubernetes object"},
		{"no kind", pod + "apiVersion: v1\nmetadata: {name: b}\n", "f.yaml: document 2: kind is missing"},
		{"no apiVersion", "kind: Pod\nmetadata: {name: b}\n", "f.yaml: document 1: apiVersion is missing"},
		{"no name", "apiVersion: v1\nkind: Pod\n", "document 1: Pod: metadata.name is missing"},
		{"name that would break keys", "apiVersion: v1\nkind: Node\nmetadata: {name: a/b}\n", `Node: metadata.name "a/b": a lowercase RFC 1123 subdomain`},
		{"namespace that would break keys", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x/y}\n", `Pod: metadata.namespace "x/y"`},
		{"wrong type", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: maybe}\n", "Pod: json: cannot unmarshal string into Go struct field"},
		{"in a list", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- kind: Pod\n", "document 1: item 2: apiVersion is missing"},
		{"item of a list of lists", "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n", "item 1: kind is missing"},
		{"empty file", " \n", "f.yaml: is empty: to delete its objects, delete the file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse("f.yaml", []byte(c.text))
			if got := strings.Join(texts(p.errors), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

func TestParseWarnsOfWhatIsIgnored(t *testing.T) {
	p := parse("f.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwrk: true}\n---\n"+
		"apiVersion: v1\nkind: Node\nmetadata: {name: n1, namespace: x}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"))
	if got, want := describe(p), "[1: pod default/a 2: node n1]"; fmt.Sprint(got) != want || len(p.errors) > 0 {
		t.Errorf("objects %v, errors %v", got, p.errors)
	}
	want := []string{
		`f.yaml: document 1: Pod a: unknown field "spec.hostNetwrk" is ignored: check it for typing errors`,
		`f.yaml: document 2: node n1: metadata.namespace is ignored: a node has none`,
	}
	if got := texts(p.warnings); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if fmt.Sprint(p.ignored) != "[apps/v1 Deployment]" {
		t.Errorf("ignored: %v", p.ignored)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "\xef\xbb\xbf", "---", "--- ---\n---", "{", "{}{}", "a: &a [*a]", "kind: List\nitems: [null, 1]", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := parse("f", data)
		for _, o := range p.objects {
			if ref, ok := ksr.RefOf(o.object); !ok || ref.Name == "" || strings.Contains(ref.Name, "/") {
				t.Errorf("object with the identity %v", ref)
			}
		}
	})
}
