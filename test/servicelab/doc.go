// Package servicelab checks with packets which endpoints the clients of services reach. It uses a
// lab of two nodes: node1 has the vswitch under test, node2 the kernel.
//
//	outside ──┬── node1 (zone east): near, near2, mate
//	          └── node2 (zone west): far, other
//
// Pods near, near2 and far are endpoints. Clients are mate, other, near itself, outside, and
// processes of both nodes, which represent pods on the host network.
//
// Churn adds temporary pods in the namespaces x and z.
package servicelab
