package report

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A report is what somebody sent: one whose history has transactions, but no run, is answered, too.
func TestTransactionsOfNoRun(t *testing.T) {
	past := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"Runs":[],"Txns":[{"Run":1,"Txn":{"SeqNum":1}}]}`)
	})
	a := recorded{past: past}.rememberedTxns(httptest.NewRequest(http.MethodGet, "/", nil), nil)
	if a.status != http.StatusOK {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}
