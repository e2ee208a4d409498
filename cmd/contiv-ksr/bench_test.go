package main

import (
	"context"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
)

// Reflects a cluster of 1000 nodes from an API server into an empty etcd, then, in a second
// process, into the filled etcd. Times are from process start to readiness. CPU time, heap and peak
// are the first process's: the API server and etcd run in this one.
func BenchmarkReflect30000Pods(b *testing.B) {
	n := size{namespaces: 200, nodes: 1000, pods: 30000, services: 1000, policies: 500}
	if testing.Short() { // only shows that the benchmark works
		n = size{namespaces: 2, nodes: 10, pods: 300, services: 10, policies: 5}
	}
	kubeconfig, _ := startAPIServer(b, n.lists())
	args := []string{"--source", "kubernetes", "--kubeconfig", kubeconfig}
	var empty, full time.Duration
	var cpu time.Duration
	var heap, peak float64
	for b.Loop() {
		etcd := etcdtest.Start(b)
		start := time.Now()
		p := startProcess(b, etcd, args...)
		p.awaitReady("contiv-ksr is ready")
		p.awaitReflected()
		empty += time.Since(start)
		heap, peak = max(heap, p.metric("go_memstats_heap_inuse_bytes")), max(peak, p.peakMemory())
		p.terminate()
		cpu += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()

		store := etcd.Store()
		if kvs, _, err := store.List(context.Background(), k8sPrefix+"pod/"); err != nil || len(kvs) != n.pods {
			b.Fatalf("etcd holds %d pods: %v", len(kvs), err)
		}
		start = time.Now()
		p = startProcess(b, etcd, args...)
		p.awaitReady("contiv-ksr is ready")
		p.awaitReflected()
		full += time.Since(start)
		p.terminate()
		etcd.Stop()
	}
	b.ReportMetric(empty.Seconds()/float64(b.N), "s/empty")
	b.ReportMetric(float64(n.pods*b.N)/empty.Seconds(), "pods/s")
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/empty")
	b.ReportMetric(full.Seconds()/float64(b.N), "s/unchanged")
	b.ReportMetric(heap/(1<<20), "heap-MiB")
	b.ReportMetric(peak/(1<<20), "peak-MiB")
}
