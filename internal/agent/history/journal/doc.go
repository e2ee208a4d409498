// Package journal stores lines in files, bounded by size and age, so that they can be read after a
// restart.
//
//	Append ──> 00000007.log ──(full)──> 00000007.log.gz ──(too much, too old)──> deleted
//	                  └──────────────────────┴──> Read
//
// A directory contains segments. Lines are appended to the newest; the others are compressed. A
// line has the form
//
//	CRC KIND TIME DATA
//
// CRC is the CRC-32C of the rest of the line in 8 hexadecimal digits, KIND is a letter, TIME is in
// Unix nanoseconds, and DATA is JSON without line breaks. `zcat -f *.log* | grep` can search a
// journal. Readers skip lines with a wrong CRC, which a crash or disk error may leave. The lines
// around them stay readable.
//
// Lines are not synced individually. They survive the process, but a power failure may lose the
// last seconds.
package journal
