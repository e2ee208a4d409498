package service

import (
	"net/http"

	"github.com/contiv/contiv/rest"
)

// URL is where the agent says what it knows of services.
const URL = "/contiv/v1/services"

// Report is the answer at URL.
type Report struct {
	Translator Translator `json:"translator"`
}

// Handler serves URL.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, Report{Translator: s.Translator()})
	})
}
