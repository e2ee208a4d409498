// Package models maps the messages of the northbound API to their keys and back. The keys are those
// of the ligato vpp-agent NB API (v2/v3), so its clients work unchanged.
//
//	message ──Key──> "config/vpp/v2/interfaces/tap1" ──ForKey──> Model ──Decode──> message
//
// Keys of base values are defined in models.go by patterns of message fields; keys of derived and
// obtained values, which have no message, in derived.go. Golden files in testdata fix keys, JSON,
// binary forms and field numbers.
//
// In etcd a key is prefixed by NodePrefix.
package models
