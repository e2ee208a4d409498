// Package report packs the agents' answers into a file for a bug report, and answers requests from
// such a file.
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
// It contains no secrets: agents do not send them, and texts that look like secrets are removed
// during packing.
package report
