// Package install installs, upgrades and removes Contiv on a Kubernetes cluster with only a
// kubeconfig file, and checks a cluster beforehand.
//
//	manifests ──options──> objects ──filter──> server-side apply ──> wait for pods and nodes
//	                                                                      │ what is wrong with a pod
//	nodes ──a pod each, contivctl preflight --here──> facts ──judge──> findings, and what to do
package install
