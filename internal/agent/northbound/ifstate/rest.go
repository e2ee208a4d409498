package ifstate

import (
	"encoding/json"
	"net/http"

	"github.com/contiv/contiv/internal/lib/rest"
	"google.golang.org/protobuf/encoding/protojson"
)

// URL is the path of Handler.
const URL = "/contiv/v1/interfaces"

// Report is the response: ligato's InterfaceState of each interface as protojson, sorted by name.
type Report struct {
	Interfaces []json.RawMessage `json:"interfaces"`
}

// Handler serves GET /contiv/v1/interfaces: the current states, with counters.
func (k *Keeper) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, r *http.Request) {
		if err := k.poll(r.Context()); err != nil {
			rest.Error(w, http.StatusInternalServerError, err)
			return
		}
		report := Report{Interfaces: []json.RawMessage{}}
		for _, s := range k.States() {
			data, err := protojson.Marshal(s)
			if err != nil {
				rest.Error(w, http.StatusInternalServerError, err)
				return
			}
			report.Interfaces = append(report.Interfaces, data)
		}
		rest.JSON(w, report)
	})
}
