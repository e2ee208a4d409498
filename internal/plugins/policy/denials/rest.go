package denials

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/contiv/contiv/internal/lib/rest"
)

// URL of the REST API. GET returns a Report with the events after sequence number ?after=.
const URL = "/contiv/v1/denials"

// Handler serves URL.
func (k *Keeper) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, r *http.Request) {
		after := uint64(0)
		if text := r.URL.Query().Get("after"); text != "" {
			var err error
			if after, err = strconv.ParseUint(text, 10, 64); err != nil {
				rest.Error(w, http.StatusBadRequest, errors.New("after must be the number of an event"))
				return
			}
		}
		rest.JSON(w, k.Report(r.Context(), after))
	})
}
