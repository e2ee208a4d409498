// Package e2e makes a real Kubernetes cluster on one machine, with Contiv as its
// network, and tests it. It takes no Docker and no registry.
//
//	namespace <name>-underlay   192.168.16.254
//	┌───────────────────────────────────────────────────────────────────────┐
//	│ etcd <── kube-apiserver <── kube-controller-manager, kube-scheduler    │
//	└────────┬─────────────────────────────────────────┬────────────────────┘
//	  namespace <name>-node1, 192.168.16.1      namespace <name>-node2, 192.168.16.2
//	┌────────┴──────────────────────┐         ┌────────┴──────────────────────┐
//	│ kubelet ──> containerd ──> runc          │ kubelet ──> containerd ──> runc
//	│ kube-proxy: NodePort 32379    │         │ kube-proxy: NodePort 32379    │
//	│   pods on the host's network: │         │   pods on the host's network: │
//	│     contiv-etcd, contiv-ksr,  │         │     contiv-agent              │
//	│     contiv-agent              │         │                               │
//	│   pods, wired by contiv-cni   │         │   pods, wired by contiv-cni   │
//	└───────────────────────────────┘         └───────────────────────────────┘
//
// Networks, processes and the record of what exists are those of a bare lab (package
// lab). Kubernetes' programs are built from its Go module by hack/kubernetes,
// containerd and runc are Debian's, images are archives that this package writes.
// Contiv comes from the manifests in deploy, as at a user's.
//
// All nodes share the machine's file system and its cgroups, so each has a directory,
// <cluster>/nodes/<node>, for what would be in /var/lib, /etc, /run and /opt, and a
// cgroup, /contiv-e2e-<cluster>/<node>. Kubelet and containerd enter the network
// namespace of their node and no other: mounts must be seen by all.
//
// Down needs nothing but the cluster's name, and so removes what a crash has left.
package e2e
