package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// NotServed ends the text of the error about a path that is not known.
const NotServed = "is not served here"

// plainErrors are texts of the router, in whose place there is JSON.
type plainErrors struct {
	http.ResponseWriter
	r *http.Request
	// replaced: the router's text is left out.
	replaced bool
}

// WriteHeader answers in JSON if the router has found no handler.
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

// Unwrap is for http.ResponseController.
func (w *plainErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// inJSON has a router's own errors answered in JSON.
func inJSON(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&plainErrors{ResponseWriter: w, r: r}, r)
	})
}
