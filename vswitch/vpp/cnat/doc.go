// Package cnat is DNAT66 by VPP's plugin cnat: translations, marked as ours by paths that are
// never used (translation.go), and the features that all interfaces of ours have as long as
// there are translations (features.go).
package cnat
