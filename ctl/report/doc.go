// Package report packs the agents' answers into a file that goes with a bug report, and answers from such a
// file as the agents did.
//
//	agents ──(REST)──> Pack ──> report.tgz ──> Open ──> Agents, which other commands ask
//
// The archive holds, below a directory:
//
//	README                          what this is
//	report.json                     when it was made, by which version, and the nodes
//	nodes/NODE/index.json           requests, with status and file of the answer
//	nodes/NODE/answers/…            the answers
//	nodes/NODE/history/…            the history of the agent, as it keeps it
//
// Secrets are in none of it: agents do not tell them, and what looks like one is taken out again while it is packed.
package report
