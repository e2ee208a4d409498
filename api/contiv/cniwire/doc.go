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
// The most frequent calls use a shorter form, in which contiv-cni passes the runtime's environment
// and standard input to the agent and carries out its answer:
//
//	contiv-cni ──"CNI2", length, fields of an Invocation──> agent
//	           <─"CNI2", length, fields of an Outcome──────
//
// Each field is a length (big-endian uint32) and as many bytes. Fields are only added at the end; a
// reader ignores additional ones. If the agent declines an Invocation or does not answer,
// contiv-cni makes an ordinary Call.
//
// The agent distinguishes the protocols by the first four bytes of a connection; gRPC's are "PRI ".
// An agent that does not know a protocol answers with HTTP/2, which Read reports as ErrNotSpoken.
//
// If the caller closes the connection, the agent cancels the call.
//
// The package also names the files that pass DELs to an agent that is not running.
package cniwire
