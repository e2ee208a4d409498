// Package cniserver serves cni.RemoteCNI on one socket in three protocols: gRPC, and the two of
// contiv-cni (see api/contiv/cniwire). The first bytes of a connection decide.
//
//	             ┌─ "PRI " ──> gRPC ───────────────────────────┐
//	socket ──────┼─ "CNI1" ──> one call ───────────────────────┼──> cni.RemoteCNIServer
//	             └─ "CNI2" ──> one invocation ──> cni.Answer ──┘
//
// A panic of the service is the failure of one call. A call whose caller has gone
// is cancelled.
package cniserver
