// Package servicelab checks with packets which endpoints clients of services come to, in a lab of two
// nodes: node1 has the vswitch that the test is about, node2 the kernel.
//
//	outside ──┬── node1 (zone east): near, near2, mate
//	          └── node2 (zone west): far, other
//
// Pods near, near2 and far are endpoints. Clients are mate, other, near itself, processes of both nodes, as
// which pods on the host network appear, and outside.
//
// Churn adds pods in the namespaces x and z, which come and go.
package servicelab
