package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// NotServed is the end of the error for an unknown path.
const NotServed = "is not served here"

// plainErrors replaces plain-text errors of http.ServeMux by JSON.
type plainErrors struct {
	http.ResponseWriter
	r *http.Request
	// replaced: the text of the ServeMux is dropped
	replaced bool
}

// WriteHeader answers in JSON if the ServeMux has found no handler.
func (w *plainErrors) WriteHeader(status int) {
	ofRouter := strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") && w.Header().Get("X-Content-Type-Options") == "nosniff"
	switch {
	case ofRouter && status == http.StatusNotFound:
		w.replaced = true
		Error(w.ResponseWriter, status, fmt.Errorf("%s %s", w.r.URL.Path, NotServed))
	case ofRouter && status == http.StatusMethodNotAllowed:
		w.replaced = true
		Error(w.ResponseWriter, status, errors.New(w.r.Method+" is not served for "+w.r.URL.Path+": use "+w.Header().Get("Allow")))
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *plainErrors) Write(data []byte) (int, error) {
	if w.replaced {
		return len(data), nil
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap supports http.ResponseController.
func (w *plainErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// inJSON converts the errors of a http.ServeMux to JSON.
func inJSON(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&plainErrors{ResponseWriter: w, r: r}, r)
	})
}
