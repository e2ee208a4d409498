package processor

// SetBound replaces MaxNodeParts and MaxNodePods.
func (p *Processor) SetBound(parts, pods int) { p.bound = size{parts, pods} }

// Used returns the parts and pods that the limits count.
func (p *Processor) Used() (parts, pods int) {
	return p.parts, p.selected() + p.cache.Memberships() + p.nodes.cache.Memberships()
}
