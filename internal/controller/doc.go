// Package controller is the event loop of a node. It turns changes of the cluster, pods and
// external configuration into events, lets the plugins (event handlers) compute the network
// configuration, and commits the result, merged with external configuration, to the KVScheduler:
// one transaction per event.
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
//	 observers: history, log, health, handlers; Done(Outcome)
//
// Rules:
//
//   - A follow-up is recognised by the context passed to the handlers; see
//     EventLoop.PushEvent. A blocking follow-up fails with ErrBlockingFollowUp.
//   - Revert is called, in reverse order, for all handlers whose Update was called,
//     including the one that failed.
//   - A panic of a handler aborts its event, as AbortEventError does.
//   - If a handler fails in a resync, the incomplete result removes nothing: values of
//     earlier events stay until the healing resync, and a startup resync is not
//     committed at all.
//   - External values of several sources for a key are merged in the order of the
//     sources, the database first.
package controller
