// Package cniwire is the protocol between contiv-cni and the agent of the node. It carries the
// calls of the gRPC service cni.RemoteCNI (api/contiv/cni/cni.proto) for a short-lived program: initialising gRPC
// and protobuf would take longer than the call.
//
// A connection to the agent's socket carries one call:
//
//	contiv-cni ──"CNI1", length, JSON of a Call──> agent
//	           <─"CNI1", length, JSON of an Answer──
//
// The length of the JSON is a big-endian uint32 of at most MaxSize. Requests and replies are the
// service's messages in protojson with the names of the .proto file, declared here as plain
// structs. Unknown fields are ignored, so either side may be newer.
//
// The agent distinguishes the protocols by the first four bytes of a connection; gRPC's are "PRI ".
// An agent that does not know a protocol answers with HTTP/2, which Read reports as ErrNotSpoken.
//
// If the caller closes the connection, the agent cancels the call.
//
// The package also names the files that pass DELs to an agent that is not running.
package cniwire
