package client

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of connections do not contain the wording of the gRPC library.
func TestCause(t *testing.T) {
	for text, want := range map[string]string{
		`connection error: desc = "transport: error while dialing: dial tcp 127.0.0.1:9111: connect: connection refused"`: "dial tcp 127.0.0.1:9111: connect: connection refused",
		`connection error: desc = "error reading server preface: remote error: tls: certificate required"`:                "tls: certificate required",
		"the agent ends": "the connection ended: the agent ends",
	} {
		if got := cause(status.New(codes.Unavailable, text)); got != want {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
}
