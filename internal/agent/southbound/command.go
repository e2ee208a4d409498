package southbound

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/contiv/internal/lib/rest"
)

// vppCommandURL serves VPP's command line: POST {"vppclicommand": "show version"} returns VPP's
// output as a JSON string.
const vppCommandURL = "/vpp/command"

// maxVPPCommand exceeds VPP's longest command, in bytes.
const maxVPPCommand = 16 << 10

// Handlers returns the REST handlers of the vswitch: its command line and its metrics.
func (s *Southbound) Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"POST " + vppCommandURL: http.HandlerFunc(s.runCommand),
		"GET /metrics/{name}":   http.HandlerFunc(s.namedMetrics),
	}
}

// runCommand runs a command in the command line of the vswitch, if it has one. Commands can change the
// node's network and write files, so a local connection alone gives no access.
func (s *Southbound) runCommand(w http.ResponseWriter, r *http.Request) {
	run := s.CommandLine()
	if run == nil {
		rest.Error(w, http.StatusNotImplemented, errors.New("the vswitch of this node is the Linux kernel, which has no command line: use ip(8) and nft(8)"))
		return
	}
	if !rest.IsOperator(r) {
		rest.Error(w, http.StatusForbidden, fmt.Errorf("VPP commands are accepted only on the socket agent.sock, and over TLS from clients with the role configure"))
		return
	}
	command, err := vppCommand(r)
	if err != nil {
		rest.Error(w, http.StatusBadRequest, err)
		return
	}
	// The arguments are not logged, because they may contain IPsec keys.
	s.log.Info("Command for VPP", "command", strings.Join(firstWords(command, 3), " "))
	out, err := run(r.Context(), command)
	if err != nil {
		rest.Error(w, http.StatusServiceUnavailable, err)
		return
	}
	rest.JSON(w, out)
}

func firstWords(text string, n int) []string {
	words := strings.Fields(text)
	if len(words) > n {
		return append(words[:n:n], "…")
	}
	return words
}

func vppCommand(r *http.Request) (string, error) {
	var body struct {
		Command string `json:"vppclicommand"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxVPPCommand))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
		return "", fmt.Errorf(`invalid request body, expected {"vppclicommand": "show version"}: %w`, err)
	}
	command := strings.TrimSpace(body.Command)
	if command == "" || strings.ContainsAny(command, "\n\r\x00") {
		return "", errors.New("vppclicommand is empty or has several lines: use one VPP command, such as show interface")
	}
	return command, nil
}
