package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Errors of the ServeMux become JSON; answers of handlers are unchanged.
func TestUnservedPathsAreAnsweredInJSON(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /known", func(w http.ResponseWriter, _ *http.Request) { JSON(w, "yes") })
	mux.HandleFunc("GET /text", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		w.Write([]byte("mine"))
	})
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{http.MethodGet, "/404", http.StatusNotFound, "/404 is not served here"},
		{http.MethodPost, "/known", http.StatusMethodNotAllowed, "POST is not served for /known: use GET, HEAD"},
	} {
		w := httptest.NewRecorder()
		inJSON(mux).ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		var body ErrorBody
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != c.status || body.Error != c.want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %q %v", c.method, c.path, w.Code, w.Body, err)
		}
	}
	for path, want := range map[string]string{"/known": "\"yes\"\n", "/text": "mine"} {
		w := httptest.NewRecorder()
		inJSON(mux).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Body.String() != want {
			t.Errorf("%s: %q", path, w.Body)
		}
	}
}
