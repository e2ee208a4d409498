// Package ownership answers, for everything in a VPP, whether it is ours and under which
// logical name.
//
//   - An interface is ours if it has a tag, which is its logical name. Registry keeps the
//     indexes of names, and reads VPP when it is asked for one that it does not know.
//   - Access lists and mappings of NAT are ours if their tags begin as TagOf begins them.
//   - What has no tag of its own (routes, neighbours, cross-connects, …) is ours on the
//     interfaces that are ours (Names.Of), and in the tables that are ours.
//
// An index is valid as long as its interface exists: VPP gives it to another one after
// that. Registry.Gone and Registry.Forget take care of what VPP tells; who gets
// INVALID_SW_IF_INDEX for an index of the registry calls Forget.
package ownership
