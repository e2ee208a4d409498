// Package rest provides the HTTP servers of our programs: listeners, access control, limits, and
// JSON answers.
//
//	Listen("unix:///run/contiv/agent.sock", "127.0.0.1:9999") ──> Serve(ctx, handler)
//
// Errors are answered with {"Error": "…"} and a matching status.
package rest
