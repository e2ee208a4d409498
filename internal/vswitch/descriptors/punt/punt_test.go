package punt

import (
	"testing"

	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
)

func TestValidation(t *testing.T) {
	for name, err := range map[string]error{
		"punt without protocol": validateToHost(&vpp_punt.ToHost{L3Protocol: 4, Port: 1}),
		"punt without port":     validateToHost(&vpp_punt.ToHost{L3Protocol: 4, L4Protocol: 6}),
		"redirect without hop":  validateIPRedirect(&vpp_punt.IPRedirect{L3Protocol: 4, TxInterface: "a"}),
		"exception, no socket":  validateException(&vpp_punt.Exception{Reason: "a"}),
		"STN without address":   validateSTN(&vpp_stn.Rule{Interface: "a"}),
	} {
		descriptortest.WantField(t, name, err)
	}
}
