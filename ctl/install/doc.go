// Package install puts Contiv on a Kubernetes cluster, replaces it by another version, and removes it,
// with nothing but a kubeconfig file; and it checks beforehand whether Contiv works on the cluster.
//
//	manifests ──options──> objects ──filter──> server-side apply ──> wait for pods and nodes
//	                                                                      │ what is wrong with a pod
//	nodes ──a pod each, contivctl preflight --here──> facts ──judge──> findings, and what to do
package install
