// Package nat holds the descriptors of address translation: NAT44, NAT66, and services of both IP
// versions.
package nat
