// Package models maps the messages of the northbound API to their keys, and
// back. The keys are those of the ligato vpp-agent NB API (v2/v3), so that what
// others wrote for it works here.
//
//	message ──Key──> "config/vpp/v2/interfaces/tap1" ──ForKey──> Model ──Decode──> message
//
// Keys of base values come from the registry in models.go, made of fields of the
// message as a pattern says; keys of derived and obtained values, which no message of
// their own stands for, from derived.go. Golden files in testdata keep keys, JSON,
// binary and numbers as they are.
//
// In etcd a key is prefixed by NodePrefix.
package models
