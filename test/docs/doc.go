// Package docs runs the documentation: the commands that its pages print, in the order of each page, in labs,
// and compares what they print with the samples on the page. See docs_test.go for the pages and their labs,
// and for the commands that cannot be run there, with the reason.
//
//	page ──parse──> blocks ──> steps: a command, and the sample of its output
//	                             │ run by a shell whose contiv-lab, contivctl, etcdctl, nft, … are those of the lab
//	                             ▼
//	                          output ──shape──> the same but for numbers, times, addresses and identifiers?
//
// A comment of HTML in front of a block, which readers do not see, brings about what the text takes for granted,
// such as a pod, or an etcd that is stopped:
//
//	<!-- run: contiv-lab etcd stop -->
//
// or has a number in the commands that follow stand for that of the run:
//
//	<!-- let: 12 = contivctl txns -o name --node node1 --last 1 -->
//
// With -update, the samples of pages on which one has another shape are written anew, from one run.
package docs
