package nat

type ahead struct {
	state      dnatState
	generation uint32
}

// ReadAhead reads the elements of both IP versions for the first lists of values. With many
// services, this takes about as long as the agent needs to load the services. The result is used
// only if the table has not changed since.
func (v *Driver) ReadAhead() {
	v.dnat4().readAhead()
	v.dnat6().readAhead()
}

func (v dnat) readAhead() {
	v.nat.Lock()
	defer v.nat.Unlock()
	generation, ok := v.nat.Generation()
	if !ok {
		return
	}
	state, err := v.readDNAT()
	if err != nil {
		return // the first list reports the error
	}
	v.nat.ahead[v.family] = ahead{state, generation}
}

// takeAhead returns the elements read ahead, once and only if they are current.
func (v dnat) takeAhead() (dnatState, bool) {
	a, ok := v.nat.ahead[v.family]
	if !ok {
		return dnatState{}, false
	}
	delete(v.nat.ahead, v.family)
	_, ok = v.nat.Unchanged(v.family.batch().Name(), a.generation)
	return a.state, ok
}
