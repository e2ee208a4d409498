package target

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s reaches another server", r.Method, r.URL)
	}))
	defer elsewhere.Close()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/scheduler/downstream-resync", http.StatusTemporaryRedirect)
	}))
	defer agent.Close()
	a, err := New("node1", agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	kept, release := a.KeepConnections()
	defer release()
	for _, a := range []*Agent{a, kept} {
		var into any
		for _, err := range []error{a.Get(t.Context(), "/x", nil, &into), a.Post(t.Context(), "/x", nil, "body", &into)} {
			if status := (*StatusError)(nil); !errors.As(err, &status) || status.Status != http.StatusTemporaryRedirect {
				t.Errorf("error %v", err)
			}
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	defer func(most int64) { maxAnswer = most }(maxAnswer)
	maxAnswer = 2 << 20
	part := make([]byte, 1<<20)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	defer agent.Close()
	a, err := New("node1", agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	var into any
	if err := a.Get(t.Context(), "/x", nil, &into); err == nil || !strings.Contains(err.Error(), "more than 2 MiB") {
		t.Errorf("error %v", err)
	}
	_, body, err := a.Fetch(t.Context(), "/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if n, err := io.Copy(io.Discard, io.LimitReader(body, maxAnswer+4<<20)); !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "more than 2 MiB") || n != maxAnswer {
		t.Errorf("%d bytes were fetched, error %v", n, err)
	}
}
