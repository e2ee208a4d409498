package neighbours

import (
	"errors"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
)

func (v *Driver) RestoreNeighbours(iface string, index int) error {
	var errs []error
	for _, key := range v.Reg.KeysOf(iface) {
		value, _ := v.Reg.Get(key)
		entry, ok := value.(*vpp_l3.ARPEntry)
		if !ok {
			continue
		}
		if n, err := neighbourOf(entry); err == nil {
			n.Index = index
			errs = append(errs, v.Net.SetNeighbour(n))
		}
	}
	return errors.Join(errs...)
}
