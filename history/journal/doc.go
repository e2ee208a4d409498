// Package journal keeps lines in files, bounded by size and age, so that what happened
// before a restart can be looked up.
//
//	Append ──> 00000007.log ──(full)──> 00000007.log.gz ──(too much, too old)──> gone
//	                  └──────────────────────┴──> Read
//
// A directory holds segments. The newest is appended to, the others are compressed. Lines are
//
//	CRC KIND TIME DATA
//
// with the CRC-32C of what follows it, in 8 hexadecimal digits, a letter, Unix nanoseconds, and JSON without line
// breaks: `zcat -f *.log* | grep` reads them too. A line that is damaged, or torn by
// the end of the process, fails its CRC and is left out; the lines around it are not affected.
//
// Lines are not synced to the disk one by one: they outlive the process, and the last seconds of
// them may be lost when the machine loses power.
package journal
