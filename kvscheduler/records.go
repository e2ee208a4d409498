package kvscheduler

import (
	"github.com/contiv/contiv/kvscheduler/record"
)

// Inputs and records of transactions are plain data in package record.
type (
	KeyValue         = record.KeyValue
	Origin           = record.Origin
	ResyncType       = record.ResyncType
	TxnType          = record.TxnType
	RecordedTxn      = record.Txn
	RecordedOp       = record.Op
	RecordedRetrieve = record.Retrieve
	ValueSnapshot    = record.Value
	Need             = record.Need
	Revision         = record.Revision
	DumpedValue      = record.Dumped
)

const (
	UnknownOrigin = record.UnknownOrigin
	FromNB        = record.FromNB
	FromSB        = record.FromSB

	NotResync        = record.NotResync
	FullResync       = record.FullResync
	UpstreamResync   = record.UpstreamResync
	DownstreamResync = record.DownstreamResync

	SBNotification = record.SBNotification
	NBTransaction  = record.NBTransaction
	RetryFailedOps = record.RetryFailedOps
	RetryUnimplOps = record.RetryUnimplOps
)
