package ctl

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestVPPCommandsAreSentAsTheyAre(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPost || r.URL.Path != vppCommandURL {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		json.NewEncoder(w).Encode("did " + body["vppclicommand"] + "\r\nall of it\r\n")
	}))
	out, _, err := run(t, "--agent", "n1=unix://"+socket, "vppcli", "n1", "show", "interface", "--verbose", "-x")
	if want := "did show interface --verbose -x\nall of it\n"; out != want || err != nil {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
	if _, _, err := run(t, "--agent", "n1=unix://"+socket, "vppcli", "n1"); err == nil || !strings.Contains(err.Error(), "NODE COMMAND") {
		t.Errorf("without a command: %v", err)
	}
}
