// Package controller is the event loop of a node: it turns everything that happens into events,
// lets the plugins (event handlers) compute the effect of each event on the network, and commits
// the result, merged with external configuration, to the transaction engine, as one transaction per
// event.
//
//	dbwatcher   podmanager   external sources   healing
//	    │           │              │               │
//	    └───────────┴─ PushEvent ──┴───────────────┘
//	                      │
//	      ┌───────────────▼───────────────┐   one goroutine
//	      │ queue: follow-ups first,      │
//	      │ nothing before the first      │
//	      │ DBResync                      │
//	      └───────────────┬───────────────┘
//	                      │ event
//	 caches: kubeState, externalConfig, internalConfig
//	                      │
//	      handler 1 → handler 2 → … → handler n      (Reverse: n → … → 1)
//	                      │ one transaction
//	            merge with externalConfig
//	                      │
//	            KVScheduler ──error──> revert, or healing resync later
//	                      │
//	         history, log, Done(result)
//
// The behaviour is that of seed 001, "Controller". What was left open there:
//
//   - A follow-up is recognised by the context that handlers are given; see
//     EventLoop.PushEvent. A blocking one is refused with ErrBlockingFollowUp.
//   - Revert is called for all handlers whose Update was called, backwards, the
//     one that failed included.
//   - A handler that panics aborts its event as an AbortEventError does.
//   - When a handler fails in a resync, nothing is removed on the strength of
//     the incomplete result: values of earlier events stay until the healing,
//     and so does the whole network if it was the startup resync.
//   - Of several external sources with a value for the same key, later ones are
//     merged onto earlier ones: the database first, then the sources in the
//     order in which they were given.
package controller
