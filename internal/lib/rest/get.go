package rest

import (
	"errors"
	"net/http"
)

// Get returns a handler that refuses methods other than GET and HEAD.
func Get(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			Error(w, http.StatusMethodNotAllowed, errors.New("use GET"))
			return
		}
		answer(w, r)
	})
}
