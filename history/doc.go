// Package history keeps on disk what an agent did, so that it can be asked for after a restart:
// events, transactions, and what became of values.
//
//	controller ──── EventRecord ──┐
//	                              ├─> Recorder ──> journal ──> Reader ──> REST, and reports of contivctl
//	KVScheduler ─── Committed ────┘  (a queue)
//
// What is recorded never waits for the disk. A queue that is full and a disk that fails lose records; how many is
// recorded as soon as it can be. A run is the life of one agent; runs are numbered from 1.
//
// The lines of the journal, by their kind:
//
//	R  a run begins                     Run
//	H  a segment goes on with a run     Run
//	K  all values follow, in C          checkpoint
//	C  a value                          record.Value
//	E  an event                         controller.EventRecord
//	T  a transaction                    record.Txn
//	V  what it made of a value          change
//	L  records were lost                loss
//	S  the run ended in an orderly way
//
// The values of a moment are those of the last R, H or L before it, with the changes since. Each segment
// begins with R or H, so older segments need not be there.
package history
