package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/contiv/rest"
)

// vppCommandURL serves VPP's command line: POST {"vppclicommand": "show version"} returns VPP's
// output as a JSON string.
const vppCommandURL = "/vpp/command"

// maxVPPCommand exceeds VPP's longest command, in bytes.
const maxVPPCommand = 16 << 10

// handle serves the command line of the vswitch, if it has one. Its commands can change the node's
// network and write files, so a local connection alone gives no access.
func (s *southbound) handle(mux *http.ServeMux) {
	s.handleMetrics(mux)
	mux.HandleFunc("POST "+vppCommandURL, func(w http.ResponseWriter, r *http.Request) {
		vs, has := s.vs.(commandLine)
		if !has {
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
		out, err := vs.CLI(r.Context(), command)
		if err != nil {
			rest.Error(w, http.StatusServiceUnavailable, err)
			return
		}
		rest.JSON(w, out)
	})
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
