// Package redirect makes cross-connects and mirrors: filters of traffic control that
// send or copy frames of one device to another.
package redirect
