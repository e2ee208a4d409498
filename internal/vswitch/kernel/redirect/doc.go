// Package redirect implements cross-connects and mirrors with tc filters that redirect or copy
// frames to another device.
package redirect
