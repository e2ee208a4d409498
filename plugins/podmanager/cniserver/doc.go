// Package cniserver serves cni.RemoteCNI on one socket in three protocols: gRPC, and the two of
// contiv-cni (see api/contiv/cniwire). The first bytes of a connection select the protocol.
//
//	             ┌─ "PRI " ──> gRPC ───────────────────────────┐
//	socket ──────┼─ "CNI1" ──> one call ───────────────────────┼──> cni.RemoteCNIServer
//	             └─ "CNI2" ──> one invocation ──> cni.Answer ──┘
//
// A panic of the service only fails its call. A call is cancelled when its caller disconnects.
package cniserver
