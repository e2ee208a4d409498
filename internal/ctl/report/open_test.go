package report

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service"
)

// A report is untrusted input: a history with transactions but without runs must be answered.
func TestTransactionsOfNoRun(t *testing.T) {
	past := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"Runs":[],"Txns":[{"Run":1,"Txn":{"SeqNum":1}}]}`)
	})
	a := recorded{past: past}.rememberedTxns(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

// Reports before format 3 have an answer per service, because older agents did not return all at
// once.
func TestServicesOfOlderReportsAndAgents(t *testing.T) {
	summary := answer{status: http.StatusOK, body: []byte(`{"services":[{"namespace":"shop","name":"web","endpoints":1}]}`)}
	full := answer{status: http.StatusOK, body: []byte(`{"services":[{"namespace":"shop","name":"web","endpoints":1,"details":[{"address":"10.1.1.2:80"}]}]}`)}
	ask := func(a recorded, query string) (int, string) {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, service.URL+"?"+query, nil))
		return w.Code, w.Body.String()
	}
	older := recorded{answers: map[string]answer{service.URL: summary, service.URL + "?service=shop%2Fweb": full}}
	newer := recorded{answers: map[string]answer{service.URL: summary, servicesURL: full}}
	for _, query := range []string{"service=shop/web", "endpoint=10.1.1.2"} {
		for _, a := range []recorded{older, newer} {
			if code, body := ask(a, query); code != http.StatusOK || !strings.Contains(body, "10.1.1.2:80") {
				t.Errorf("%s: %d %s", query, code, body)
			}
		}
		ofOldAgent := recorded{answers: map[string]answer{service.URL: summary, servicesURL: summary}}
		if code, body := ask(ofOldAgent, query); code != http.StatusBadRequest || !strings.Contains(body, "too old") {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}
