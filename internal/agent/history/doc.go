// Package history records on disk the events, transactions and value changes of an agent, so that
// they can be queried after a restart.
//
//	controller ──── EventRecord ──┐
//	                              ├─> Recorder ──> journal ──> Reader ──> REST, and reports of contivctl
//	KVScheduler ─── Committed ────┘  (a queue)
//
// Recording never waits for the disk. If the queue is full or the disk fails, records are lost, and
// the journal states how many as soon as it can be written again. A run is the lifetime of one
// agent process. Runs are numbered from 1.
//
// The journal has these kinds of lines:
//
//	R  start of a run                   Run
//	H  start of a segment within a run  Run
//	K  start of a checkpoint            checkpoint
//	C  a value of the checkpoint        record.Value
//	E  an event                         controller.EventRecord
//	T  a transaction                    record.Txn
//	V  a value changed by it            change
//	L  lost records                     loss
//	S  orderly end of the run
//
// The values at a given time are the values after the last R, H or L line, plus later changes. Each
// segment begins with R or H, so it can be read without older segments.
package history
