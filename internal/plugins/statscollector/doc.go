// Package statscollector exports the counters of the vswitch's interfaces to Prometheus, with the
// pods that they belong to.
//
//	scrape ──> Collector ──Stats──> vswitch          the counters of each interface
//	               └───────PodInterfaces──> ipnet    the pod of each interface
//
// It keeps no state between scrapes: a pod's series end with its interface.
package statscollector
