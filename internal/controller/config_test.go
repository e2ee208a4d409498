package controller_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/google/go-cmp/cmp"
)

// The defaults of docs/reference/options.md, which test/manifests compares with its table.
func TestDocumentedDefaults(t *testing.T) {
	var documented controller.Config
	err := json.Unmarshal([]byte(`{
		"enableRetry": true, "delayRetry": 1000000000, "maxRetryAttempts": 3, "enableExpBackoffRetry": true,
		"delayLocalResync": 5000000000, "startupResyncDeadline": 30000000000,
		"enablePeriodicHealing": true, "periodicHealingInterval": 300000000000, "delayAfterErrorHealing": 5000000000,
		"remoteDBProbingInterval": 3000000000,
		"recordEventHistory": true, "eventHistoryAgeLimit": 1440, "permanentlyRecordedInitPeriod": 60}`), &documented)
	if err != nil {
		t.Fatal(err)
	}
	documented.FeedbackRate = 1000 // not in that table
	if diff := cmp.Diff(documented, controller.DefaultConfig()); diff != "" {
		t.Error(diff)
	}
	if err := documented.Validate(); err != nil {
		t.Error(err)
	}
}

func TestLoadConfig(t *testing.T) {
	got, err := controller.LoadConfig([]byte("enablePeriodicHealing: false\ndelayRetry: 2s\ndelayLocalResync: 1000000000\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := controller.DefaultConfig()
	want.EnablePeriodicHealing = false
	want.DelayRetry = config.Duration(2 * time.Second)
	want.DelayLocalResync = config.Duration(time.Second)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadConfigErrors(t *testing.T) {
	for doc, want := range map[string]string{
		"enableRetries: true":        `"enableRetry"`,
		"delayRetry: 0":              "delayRetry",
		"delayRetry: 5":              "5 nanoseconds",
		"delayRetry: 100000h":        "at most 8760h",
		"maxRetryAttempts: -1":       "maxRetryAttempts",
		"delayLocalResync: 1m":       "startupResyncDeadline",
		"remoteDBProbingInterval: 0": "remoteDBProbingInterval",
	} {
		if _, err := controller.LoadConfig([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", doc, err, want)
		}
	}
}
