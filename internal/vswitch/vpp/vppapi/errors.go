package vppapi

import (
	"errors"
	"fmt"

	"go.fd.io/govpp/api"
)

// ErrClosed reports that the connection to VPP has ended.
var ErrClosed = errors.New("the connection to VPP has ended")

// UnknownMessageError reports that VPP lacks a message or defines it differently.
type UnknownMessageError struct {
	Mismatch
}

func (e *UnknownMessageError) Error() string { return "VPP cannot be asked: " + e.Mismatch.String() }

// Mismatch is a message that VPP lacks or defines differently.
type Mismatch struct {
	Message string
	Ours    string // its CRC in hexadecimal digits
	Theirs  string // empty if VPP lacks the message
}

func (m Mismatch) String() string {
	if m.Theirs == "" {
		return "it has no message " + m.Message
	}
	return fmt.Sprintf("its message %s is another one (CRC %s, not %s)", m.Message, m.Theirs, m.Ours)
}

// ReplyError is a request that VPP refused.
type ReplyError struct {
	Request string
	Code    api.VPPApiError
}

func (e *ReplyError) Error() string { return fmt.Sprintf("VPP refused %s: %v", e.Request, e.Code) }
func (e *ReplyError) Unwrap() error { return e.Code }

// Refused reports whether err is VPP's refusal with one of the codes.
func Refused(err error, codes ...api.VPPApiError) bool {
	for _, code := range codes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
