// Package acl implements vswitch.ACLs with VPP's plugin acl.
//
//	acl.go       create, replace, delete, bind
//	ids.go       VPP's indexes of lists, by tag; also for package abf
//	rules.go     IP rules there and back; macip.go the same for MAC-IP rules, whose order VPP does not keep
//	sequence.go  the lists of an interface, which VPP sets as a whole: ours by name, after a helper
//	sessions.go  setting them, without sessions of earlier interfaces
//	list.go      reading back
package acl
