package kvscheduler

import (
	"encoding/xml"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// SVG graphs need no external program, draw dependencies to the left of dependents even in cycles, and escape
// keys and labels.
func TestGraphIsDrawnAsSVGWithoutExternalPrograms(t *testing.T) {
	t.Setenv("PATH", "")
	s, sb := newScheduler(t), newSouthbound(t)
	sb.register(s, "a", parts{prefix: "a/", derive: true, deps: map[string][]Dependency{
		"a/<2>": {on("first & only", "a/1")}, "a/3": {on("x", "a/4")}, "a/4": {on("x", "a/3")},
		"a/5": {{Label: "any", AnyOf: AnyOf{KeyPrefixes: []string{"a/1"}}}}}})
	mustCommit(t, s, "a/1=item a/<2>=x a/3=x a/4=x a/5=x")
	w := httptest.NewRecorder()
	Upper.Handler(s).ServeHTTP(w, httptest.NewRequest("GET", "/scheduler/graph?format=svg&txn=0", nil))
	if w.Code != 200 || w.Header().Get("Content-Type") != "image/svg+xml" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	svg := w.Body.String()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	values := s.Snapshot().Values()
	if got := strings.Count(svg, "<rect "); got != len(values) {
		t.Errorf("%d boxes for %d values", got, len(values))
	}
	if !strings.Contains(svg, "gold") || !strings.Contains(svg, "a/&lt;2&gt; is CONFIGURED") || !strings.Contains(svg, "<title>any</title>") {
		t.Errorf("SVG lacks the changed value, its state, or an AnyOf dependency\n%s", svg)
	}
}
