package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// ErrorBody is the JSON of an error answer.
type ErrorBody struct{ Error string }

// JSON answers with a value and status 200.
func JSON(w http.ResponseWriter, value any) { Answer(w, http.StatusOK, value) }

// Error answers with an ErrorBody.
func Error(w http.ResponseWriter, status int, err error) {
	Answer(w, status, ErrorBody{Error: err.Error()})
}

// Answer answers with a status and the JSON of a value, indented up to 64 KiB.
func Answer(w http.ResponseWriter, status int, value any) {
	const long = 64 << 10
	data, err := marshal(value)
	if err != nil {
		status = http.StatusInternalServerError
		data, _ = json.Marshal(ErrorBody{Error: "answer cannot be encoded: " + err.Error()})
	}
	if len(data) < long {
		var indented bytes.Buffer
		if json.Indent(&indented, data, "", "  ") == nil {
			data = indented.Bytes()
		}
	}
	data = append(data, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	w.Write(data)
}

// marshal is json.Marshal, but uses AppendJSON if available: json.Marshal copies and checks the
// result of MarshalJSON again.
func marshal(value any) ([]byte, error) {
	if list, ok := value.(interface{ AppendJSON(b []byte) []byte }); ok {
		return list.AppendJSON(nil), nil
	}
	return json.Marshal(value)
}
