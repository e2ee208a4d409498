package kvscheduler

import (
	"time"
)

// Retry says how failed operations are repeated.
type Retry struct {
	// Period before the first repetition. Default: that of DefaultRetry.
	Period time.Duration
	// MaxCount of repetitions; 0: no limit.
	MaxCount int
	// ExpBackoff doubles the period with every repetition.
	ExpBackoff bool
}

// DefaultRetry is what WithDefaultRetry asks for.
var DefaultRetry = Retry{Period: time.Second, MaxCount: 3, ExpBackoff: true}

// TxnOption changes how a transaction is committed.
type TxnOption func(*txnOptions)

type txnOptions struct {
	resync      ResyncType
	keys        []string
	nonBlocking bool
	retry       *Retry
	revert      bool
	description string
	simulate    bool
}

// WithResync makes the transaction a resync.
func WithResync(t ResyncType) TxnOption { return func(o *txnOptions) { o.resync = t } }

// WithOnlyKeys limits a DownstreamResync to the given keys. Derived keys stand
// for their base values.
func WithOnlyKeys(keys ...string) TxnOption { return func(o *txnOptions) { o.keys = keys } }

// WithoutBlocking makes Commit return as soon as the transaction is queued.
func WithoutBlocking() TxnOption { return func(o *txnOptions) { o.nonBlocking = true } }

// WithRetry repeats failed operations. The policy is remembered with each value
// and serves for operations that later events cause.
func WithRetry(r Retry) TxnOption { return func(o *txnOptions) { o.retry = &r } }

// WithDefaultRetry repeats failed operations as DefaultRetry says.
func WithDefaultRetry() TxnOption { return WithRetry(DefaultRetry) }

// WithRevert stops the transaction at its first failure and undoes what was
// done. Default: best effort. Cannot be combined with a resync.
func WithRevert() TxnOption { return func(o *txnOptions) { o.revert = true } }

// WithDescription stores a text with the record of the transaction.
func WithDescription(text string) TxnOption { return func(o *txnOptions) { o.description = text } }

// WithSimulation has the transaction planned before it is executed, and the plan
// recorded beside what was executed. A resync that reads the southbound reads it twice.
func WithSimulation() TxnOption { return func(o *txnOptions) { o.simulate = true } }
