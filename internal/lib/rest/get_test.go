package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/rest"
)

func TestGet(t *testing.T) {
	handler := rest.Get(func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, "answer") })
	for method, want := range map[string]int{
		http.MethodGet: http.StatusOK, http.MethodHead: http.StatusOK, http.MethodPost: http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed,
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		if w.Code != want {
			t.Errorf("%s: %d, expected %d", method, w.Code, want)
		}
		refused := want == http.StatusMethodNotAllowed
		if allowed := w.Header().Get("Allow"); refused && (allowed != "GET, HEAD" || !strings.Contains(w.Body.String(), `"Error": "use GET"`)) || !refused && allowed != "" {
			t.Errorf("%s: %q, %s", method, allowed, w.Body)
		}
	}
}
