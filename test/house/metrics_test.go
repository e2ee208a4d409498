package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/metrics"
)

const metricsPage = "../../docs/reference/metrics.md"

const metricsPreface = `<!-- Written by ` + "`make reference`" + `. -->
# Metrics

This page lists every metric of agents, KSR, contiv-etcd and contiv-calico-routes, with its labels and its help text.
Use it to write queries and alerts. [Monitoring](../operator/monitoring.md) sets up Prometheus.

Metrics of interfaces, transactions and KSR also exist under the names of Contiv/VPP, in the column "also as", with
labels such as ` + "`podName`" + ` and ` + "`interfaceName`" + `. "Receive" is the direction from the pod to the vswitch. Series of
an interface end with it. A counter that the vswitch does not have is absent.

| metric | labels | meaning | also as |
|---|---|---|---|
`

// metricHelpers are functions that build metrics of a name and a help text, by file: the prefix of
// the name.
var metricHelpers = map[string]map[string]string{
	"kvscheduler/metrics.go":                      {"opts": "ligato_kvscheduler_", "histogram": "ligato_kvscheduler_"},
	"cmd/contiv-calico-routes/run.go":             {"counter": "contiv_calico_"},
	"internal/plugins/statscollector/sessions.go": {"desc": ""},
}

// metricTables are files with tables of names and help texts.
var metricTables = map[string][]string{
	"internal/kubernetes/ksr/stats.go": {"reflectorType"}, "internal/plugins/statscollector/statscollector.go": {"podName", "podNamespace", "interfaceName"},
}

type metric struct {
	help   string
	labels []string
}

// The page has each metric that the code creates.
func TestMetricsPage(t *testing.T) {
	found := metricsInCode(t)
	if len(found) < 60 {
		t.Fatalf("only %d metrics are found in the code", len(found))
	}
	also := map[string]string{}
	for name, m := range maps.Clone(found) {
		if conventional := metrics.Name(name); conventional != "" {
			delete(found, name)
			found[conventional], also[conventional] = m, name
		}
	}
	var page strings.Builder
	page.WriteString(metricsPreface)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		var labels []string
		for _, label := range found[name].labels {
			if also[name] != "" {
				label = metrics.Label(label)
			}
			labels = append(labels, "`"+label+"`")
		}
		other := ""
		if also[name] != "" {
			other = "`" + also[name] + "`"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", name, strings.Join(labels, ", "), strings.TrimSuffix(found[name].help, "."), other)
	}
	if *update {
		if err := os.WriteFile(metricsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(metricsPage); err != nil || string(data) != page.String() {
		t.Errorf("docs/reference/metrics.md does not have the metrics of the code: run make reference (%v)", err)
	}
}

// metricsInCode finds metrics in the source, by name.
func metricsInCode(t *testing.T) map[string]metric {
	t.Helper()
	found := map[string]metric{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "test" || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == ".git") {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s := metricScan{found: found, helpers: metricHelpers[filepath.ToSlash(rel)], table: metricTables[filepath.ToSlash(rel)]}
		ast.Inspect(file, s.visit)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

type metricScan struct {
	found   map[string]metric
	helpers map[string]string
	// table holds the labels of a file's table of metrics; nil: the file has none.
	table []string
	// labels of the vector whose options are visited next.
	labels []string
}

func (s *metricScan) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		name := nameOf(n.Fun)
		if labels := labelsOf(n.Args); labels != nil && strings.HasSuffix(name, "Vec") {
			s.labels = labels
		}
		prefix, helper := s.helpers[name]
		if (helper || name == "NewDesc") && len(n.Args) >= 2 {
			s.add(prefix, n.Args[0], n.Args[1], labelsOf(n.Args[2:]))
		}
	case *ast.CompositeLit:
		var name, help ast.Expr
		for _, e := range n.Elts {
			kv, is := e.(*ast.KeyValueExpr)
			if !is {
				continue
			}
			switch nameOf(kv.Key) {
			case "Name":
				name = kv.Value
			case "Help":
				help = kv.Value
			}
			if s.table != nil {
				s.add("", kv.Key, kv.Value, s.table)
			}
		}
		if name != nil && help != nil {
			s.add("", name, help, nil)
		}
		if s.table != nil && len(n.Elts) >= 2 {
			s.add("", n.Elts[0], n.Elts[1], s.table)
		}
	}
	return true
}

func (s *metricScan) add(prefix string, name, help ast.Expr, labels []string) {
	n, h := textOf(name), textOf(help)
	if n == "" || !strings.Contains(h, " ") {
		return // composed elsewhere
	}
	if labels == nil {
		labels, s.labels = s.labels, nil
	}
	if _, again := s.found[prefix+n]; !again {
		s.found[prefix+n] = metric{help: strings.ReplaceAll(h, "|", "or"), labels: labels}
	}
}

// labelsOf returns the strings of the first []string among arguments: a literal, or a variable of the
// same file.
func labelsOf(args []ast.Expr) (labels []string) {
	for _, arg := range args {
		if id, is := arg.(*ast.Ident); is && id.Obj != nil {
			if spec, is := id.Obj.Decl.(*ast.ValueSpec); is && len(spec.Names) == len(spec.Values) {
				arg = spec.Values[slices.IndexFunc(spec.Names, func(n *ast.Ident) bool { return n.Name == id.Name })]
			}
		}
		if list, is := arg.(*ast.CompositeLit); is {
			if _, is := list.Type.(*ast.ArrayType); is {
				for _, e := range list.Elts {
					labels = append(labels, textOf(e))
				}
				return labels
			}
		}
	}
	return nil
}

// textOf evaluates a string: literals, their sums, and constants or variables of the same file.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return textOf(e.X) + textOf(e.Y)
	case *ast.Ident:
		if e.Obj == nil {
			return ""
		}
		if spec, is := e.Obj.Decl.(*ast.ValueSpec); is {
			for i, name := range spec.Names {
				if name.Name == e.Name && i < len(spec.Values) {
					return textOf(spec.Values[i])
				}
			}
		}
	}
	return ""
}
