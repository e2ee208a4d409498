package kvscheduler

import (
	"time"
)

// Retry is a policy for repeating failed operations.
type Retry struct {
	// Period before the first retry. Default: the Period of DefaultRetry.
	Period time.Duration
	// MaxCount of retries; 0: no limit.
	MaxCount int
	// ExpBackoff doubles the period with every retry, up to 24 h.
	ExpBackoff bool
}

// DefaultRetry is the policy of WithDefaultRetry.
var DefaultRetry = Retry{Period: time.Second, MaxCount: 3, ExpBackoff: true}

// TxnOption is an option of Transaction.Commit and Transaction.Plan.
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

// WithOnlyKeys restricts a DownstreamResync to the given keys. The key of a derived value stands for
// its base value.
func WithOnlyKeys(keys ...string) TxnOption { return func(o *txnOptions) { o.keys = keys } }

// WithoutBlocking makes Commit return as soon as the transaction is queued.
func WithoutBlocking() TxnOption { return func(o *txnOptions) { o.nonBlocking = true } }

// WithRetry repeats failed operations. The policy is stored with each value, and also applies to
// operations that later events cause.
func WithRetry(r Retry) TxnOption { return func(o *txnOptions) { o.retry = &r } }

// WithDefaultRetry repeats failed operations according to DefaultRetry.
func WithDefaultRetry() TxnOption { return WithRetry(DefaultRetry) }

// WithRevert stops the transaction at its first failure and undoes its operations. The default is
// best effort. It cannot be combined with a resync.
func WithRevert() TxnOption { return func(o *txnOptions) { o.revert = true } }

// WithDescription stores a text in the record of the transaction.
func WithDescription(text string) TxnOption { return func(o *txnOptions) { o.description = text } }

// WithSimulation plans the transaction before its execution and records the plan. A resync then reads
// the southbound twice.
func WithSimulation() TxnOption { return func(o *txnOptions) { o.simulate = true } }
