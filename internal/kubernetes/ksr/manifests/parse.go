package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Problem is a mistake in the directory.
type Problem struct {
	// File is the name without the directory, or "" for the directory itself.
	File string
	// Document is the number of the document from 1. 0: the whole file.
	Document int
	Reason   string
}

func (p Problem) String() string {
	switch {
	case p.File == "":
		return p.Reason
	case p.Document == 0:
		return fmt.Sprintf("%s: %s", p.File, p.Reason)
	}
	return fmt.Sprintf("%s: document %d: %s", p.File, p.Document, p.Reason)
}

type parsed struct {
	objects          []located
	ignored          []string
	errors, warnings problems
}

type problems []Problem

func (p problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "\n")
}

type located struct {
	object   ksr.Object
	document int
}

const defaultNamespace = "default"

// parse parses the documents of a manifest. It never panics.
func parse(file string, data []byte) parsed {
	p := &parser{file: file}
	if len(bytes.TrimSpace(data)) == 0 {
		p.fail(errors.New("is empty: to delete its objects, delete the file"))
		return p.out
	}
	for object, err := range Documents(data) {
		p.document++
		if err != nil {
			p.fail(err)
			continue
		}
		if string(object) == "null" {
			continue
		}
		if err := p.add(object, metav1.TypeMeta{}); err != nil {
			p.fail(err)
		}
	}
	return p.out
}

// Documents returns the documents of a manifest as JSON, which is null for a document with only
// comments, or an error.
func Documents(data []byte) iter.Seq2[json.RawMessage, error] {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	return func(yield func(json.RawMessage, error) bool) {
		for _, doc := range split(data) {
			object, err := yaml.YAMLToJSONStrict(doc.text)
			if err != nil {
				object, err = nil, errors.New(reason(doc, err))
			}
			if !yield(object, err) {
				return
			}
		}
	}
}

type parser struct {
	file     string
	document int
	out      parsed
}

func (p *parser) fail(err error) {
	p.out.errors = append(p.out.errors, Problem{p.file, p.document, err.Error()})
}

func (p *parser) warn(format string, args ...any) {
	p.out.warnings = append(p.out.warnings, Problem{p.file, p.document, fmt.Sprintf(format, args...)})
}

// add adds an object, or the items of a list. Items of a typed list may omit their type.
func (p *parser) add(data []byte, ofList metav1.TypeMeta) error {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &head); err != nil {
		return fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if head.Kind == "" && head.APIVersion == "" {
		head.TypeMeta = ofList
	}
	switch {
	case head.Kind == "":
		return errors.New("kind is missing")
	case head.APIVersion == "":
		return errors.New("apiVersion is missing")
	}
	if itemKind, isList := strings.CutSuffix(head.Kind, "List"); isList {
		return p.addItems(head.Items, metav1.TypeMeta{APIVersion: head.APIVersion, Kind: itemKind})
	}
	object, ok := ksr.NewObject(head.APIVersion, head.Kind)
	if !ok {
		p.out.ignored = append(p.out.ignored, head.APIVersion+" "+head.Kind)
		return nil
	}
	strict, err := kjson.UnmarshalStrict(data, object)
	if err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	for _, err := range strict {
		p.warn("%s %s: %v is ignored: check it for typing errors", head.Kind, object.GetName(), err)
	}
	if err := p.complete(object); err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	p.out.objects = append(p.out.objects, located{object, p.document})
	return nil
}

func (p *parser) addItems(items []json.RawMessage, typ metav1.TypeMeta) error {
	if typ.Kind == "" {
		typ = metav1.TypeMeta{}
	}
	for i, item := range items {
		if err := p.add(item, typ); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return nil
}

func (p *parser) complete(object ksr.Object) error {
	name := object.GetName()
	if name == "" {
		return errors.New("metadata.name is missing")
	}
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("metadata.name %q: %s", name, strings.Join(wrong, "; "))
	}
	ref, _ := ksr.RefOf(object)
	if ref.Kind.ClusterScoped() {
		if object.GetNamespace() != "" {
			p.warn("%s: metadata.namespace is ignored: a %s has none", ref, ref.Kind)
		}
		return nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(defaultNamespace)
	}
	if wrong := validation.IsDNS1123Label(object.GetNamespace()); len(wrong) > 0 {
		return fmt.Errorf("metadata.namespace %q: %s", object.GetNamespace(), strings.Join(wrong, "; "))
	}
	return nil
}

type document struct {
	// line of the file, from 0, at which the text starts.
	line int
	text []byte
}

// split splits a file at its "---" lines. Text after "---" belongs to the document. A document
// without a preceding "---" needs more than comments. JSON values may follow each other without
// "---".
func split(data []byte) []document {
	if docs, ok := splitJSON(data); ok {
		return docs
	}
	var docs []document
	current, begun := document{}, false
	for n, line := range bytes.SplitAfter(data, []byte("\n")) {
		rest, isSeparator := bytes.CutPrefix(line, []byte("---"))
		if !isSeparator || len(rest) > 0 && !bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])) {
			current.text = append(current.text, line...)
			continue
		}
		if begun || hasContent(current.text) {
			docs = append(docs, current)
		}
		current, begun = document{line: n, text: bytes.Clone(rest)}, true
	}
	if begun || hasContent(current.text) {
		docs = append(docs, current)
	}
	return docs
}

// splitJSON returns ok=false if the file is not a sequence of JSON objects.
func splitJSON(data []byte) (docs []document, ok bool) {
	if data = bytes.TrimSpace(data); !bytes.HasPrefix(data, []byte("{")) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var doc json.RawMessage
		switch err := d.Decode(&doc); err {
		case nil:
			docs = append(docs, document{text: doc})
		case io.EOF:
			return docs, true
		default:
			return nil, false
		}
	}
}

// hasContent reports whether a document contains more than comments, directives and space.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}

func reason(doc document, err error) string {
	if doc.line > 0 {
		padded := append(bytes.Repeat([]byte("\n"), doc.line), doc.text...)
		if _, inFile := yaml.YAMLToJSONStrict(padded); inFile != nil {
			err = inFile
		}
	}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	return "invalid YAML: " + strings.Join(strings.Fields(strings.ReplaceAll(text, "unmarshal errors:", "")), " ")
}
