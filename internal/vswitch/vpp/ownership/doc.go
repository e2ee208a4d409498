// Package ownership determines, for all objects in a VPP, whether they are ours and their logical
// names.
//
//   - An interface with a tag is ours; the tag is its logical name. Registry caches the
//     indexes of names, and reads VPP for unknown ones.
//   - Access lists and NAT mappings are ours if their tags have TagOf's prefix.
//   - Objects without tags (routes, neighbours, cross-connects, …) are ours on our
//     interfaces (Names.Of) and in our tables.
//
// An index is valid while its interface exists: VPP reuses it later. Registry.Gone and
// Registry.Forget handle VPP's events; a caller that gets INVALID_SW_IF_INDEX for an index of the
// registry calls Forget.
package ownership
