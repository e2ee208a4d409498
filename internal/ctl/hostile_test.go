package ctl

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/contiv/contiv/internal/ctl/target"
)

func TestExplanationOfNull(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "null") }))
	defer server.Close()
	agent, err := target.New("node1", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := askExplained(t.Context(), agent, "config/x"); err == nil {
		t.Errorf("explanation %v", e)
	}
}
