// Package rest is what the HTTP servers of our programs share: where they
// listen and how they answer.
//
//	Listen("unix:///run/contiv/agent.sock", "127.0.0.1:9999") ──> Serve(ctx, handler)
//
// Answers are JSON; errors are {"Error": "…"} with a fitting status.
package rest
