package install

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"text/template"

	"github.com/contiv/contiv/deploy"
	"sigs.k8s.io/yaml"
)

// chartDir is the directory of the chart in deploy.Chart.
const chartDir = "chart"

// Render returns the manifests of the chart for values (YAML), by file name, for test/manifests and
// test/e2e.
func Render(values string) (map[string][]byte, error) {
	above, err := parseValues([]byte(values))
	if err == nil {
		err = checkValues(above)
	}
	if err != nil {
		return nil, err
	}
	below, err := defaultValues()
	if err != nil {
		return nil, err
	}
	return renderChart(overlay(below, above))
}

// renderChart returns, by file name, the manifests that Helm would render. The chart uses only the
// Helm functions in chartFunctions; a test compares the result with Helm's.
func renderChart(values map[string]any) (map[string][]byte, error) {
	t := template.New("chart").Option("missingkey=error")
	t.Funcs(chartFunctions(t))
	files, err := fs.Glob(deploy.Chart, chartDir+"/templates/*")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if file == chartDir+"/templates/tests" || path.Ext(file) == ".txt" {
			continue
		}
		text, err := deploy.Chart.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if _, err := t.New(path.Base(file)).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	data := map[string]any{
		"Values":  values,
		"Release": map[string]any{"Name": "contiv", "Namespace": Namespace},
		"Files":   chartFiles{},
	}
	rendered := map[string][]byte{}
	for _, file := range files {
		name := path.Base(file)
		if path.Ext(name) != ".yaml" {
			continue
		}
		var text strings.Builder
		if err := t.ExecuteTemplate(&text, name, data); err != nil {
			if refused, ok := errors.AsType[refusal](err); ok {
				return nil, refused // without the places in the templates
			}
			return nil, err
		}
		if strings.TrimSpace(text.String()) != "" {
			rendered[name] = []byte(text.String())
		}
	}
	// Helm does not render these.
	definitions, err := fs.Glob(deploy.Chart, chartDir+"/crds/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, file := range definitions {
		if rendered[path.Base(file)], err = deploy.Chart.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return rendered, nil
}

// chartFiles gives templates access to the chart's files.
type chartFiles struct{}

func (chartFiles) Get(name string) (string, error) {
	text, err := deploy.Chart.ReadFile(path.Join(chartDir, name))
	return string(text), err
}

// refusal is the reason why the chart cannot be rendered with the values.
type refusal string

func (r refusal) Error() string { return string(r) }

// chartFunctions holds the Helm functions used by the templates, in addition to Go's.
func chartFunctions(t *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var text strings.Builder
			err := t.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"fail": func(reason string) (string, error) { return "", refusal(reason) },
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"toJson": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"nindent": func(n int, text string) string {
			indent := "\n" + strings.Repeat(" ", n)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"quote":     func(v any) string { return strconv.Quote(fmt.Sprint(v)) },
		"sha256sum": func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) },
		"dir":       path.Dir,
		"contains":  func(part, text string) bool { return strings.Contains(text, part) },
		"join": func(separator string, list []any) string {
			words := make([]string, len(list))
			for i, v := range list {
				words[i] = fmt.Sprint(v)
			}
			return strings.Join(words, separator)
		},
		"mod":    func(a, b int) int { return a % b },
		"list":   func(v ...any) []any { return v },
		"append": func(list []any, v any) []any { return append(list[:len(list):len(list)], v) },
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
		"get": func(m map[string]any, key string) any {
			if v, ok := m[key]; ok {
				return v
			}
			return ""
		},
		"omit": func(m map[string]any, keys ...string) map[string]any {
			rest := maps.Clone(m)
			for _, key := range keys {
				delete(rest, key)
			}
			return rest
		},
		"deepCopy": func(m map[string]any) map[string]any { return overlay(nil, m) },
		"merge": func(into, defaults map[string]any) map[string]any { // templates rely on into being changed
			maps.Copy(into, overlay(defaults, into))
			return into
		},
	}
}

// overlay returns the values of below, overridden by those in above. A null in above removes a
// value.
func overlay(below, above map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, below)
	for key, v := range above {
		inner, isMap := v.(map[string]any)
		under, _ := all[key].(map[string]any)
		switch {
		case isMap:
			all[key] = overlay(under, inner)
		case v == nil:
			delete(all, key)
		default:
			all[key] = v
		}
	}
	return all
}

// defaultValues returns the default values of the chart.
func defaultValues() (map[string]any, error) {
	text, err := deploy.Chart.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		return nil, err
	}
	return parseValues(text)
}
