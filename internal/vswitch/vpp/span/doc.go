// Package span mirrors interfaces to others, by VPP's plugin span.
package span
