// Package statscollector tells Prometheus how much each interface of the vswitch
// has received, sent and dropped, and which pod it belongs to.
//
//	scrape ──> Collector ──Stats──> vswitch          what each interface counted
//	               └───────PodInterfaces──> ipnet    whose interface it is
//
// Nothing is remembered between scrapes: a pod's series end with its interface.
package statscollector
