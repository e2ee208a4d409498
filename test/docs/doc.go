// Package docs runs the commands in the documentation, page by page, in labs, and compares their
// output with the samples on the page. docs_test.go lists the pages and their labs, and the
// commands that cannot run there, with the reason.
//
//	page ──parse──> blocks ──> steps: a command, and the sample of its output
//	                             │ run by a shell with the lab's contiv-lab, contivctl, etcdctl, nft, …
//	                             ▼
//	                          output ──shape──> the same except numbers, times, addresses and identifiers?
//
// An HTML comment before a block, invisible to readers, creates the state that the text assumes,
// such as a pod or a stopped etcd:
//
//	<!-- run: contiv-lab etcd stop -->
//
// or lets a number in later commands stand for the run's:
//
//	<!-- let: 12 = contivctl txns -o name --node node1 --last 1 -->
//
// With -update, the samples of pages with a changed shape are rewritten from one run.
package docs
