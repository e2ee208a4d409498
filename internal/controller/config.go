package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
)

// Config is the content of controller.conf (docs/reference/options.md). Durations are nanoseconds or Go
// durations.
type Config struct {
	// EnableRetry retries failed operations after DelayRetry, at most MaxRetryAttempts times. With
	// EnableExpBackoffRetry the delay doubles each time.
	EnableRetry           bool            `json:"enableRetry"`
	DelayRetry            config.Duration `json:"delayRetry"`
	MaxRetryAttempts      int             `json:"maxRetryAttempts"`
	EnableExpBackoffRetry bool            `json:"enableExpBackoffRetry"`

	// DelayLocalResync is how long the startup resync waits for etcd before it uses the local
	// mirror.
	DelayLocalResync config.Duration `json:"delayLocalResync"`
	// StartupResyncDeadline is the time after the start by which the first resync must have run.
	// The agent exits otherwise.
	StartupResyncDeadline config.Duration `json:"startupResyncDeadline"`

	// EnablePeriodicHealing compares the southbound with the computed configuration at this
	// interval and repairs differences. With 100 pods on the kernel, it takes 0.11 s of CPU time.
	EnablePeriodicHealing   bool            `json:"enablePeriodicHealing"`
	PeriodicHealingInterval config.Duration `json:"periodicHealingInterval"`
	// DelayAfterErrorHealing is the time from an error to the healing resync.
	DelayAfterErrorHealing config.Duration `json:"delayAfterErrorHealing"`
	// RemoteDBProbingInterval is the interval of etcd probes, and the maxDuration delay between
	// attempts to reconnect.
	RemoteDBProbingInterval config.Duration `json:"remoteDBProbingInterval"`

	// FeedbackRate is the maximum number of statuses of external values written to etcd per second.
	// 0 disables feedback.
	FeedbackRate int `json:"feedbackRate"`
	// LigatoStatus also publishes statuses in the format of the ligato vpp-agent.
	LigatoStatus bool `json:"ligatoStatus"`
	// LostDatabaseTimeout limits how long an etcd that lost its data is ignored while KSR has not
	// refilled it. 0: no limit.
	LostDatabaseTimeout config.Duration `json:"lostDatabaseTimeout"`

	RecordEventHistory bool `json:"recordEventHistory"`
	// EventHistoryAgeLimit is in minutes. Older records are deleted; the history also has a maximum
	// size.
	EventHistoryAgeLimit uint32 `json:"eventHistoryAgeLimit"`
	// PermanentlyRecordedInitPeriod, in minutes after the start: its records are deleted last.
	PermanentlyRecordedInitPeriod uint32 `json:"permanentlyRecordedInitPeriod"`

	// EnableVerification runs a VerificationResync after each event. For tests.
	EnableVerification bool `json:"enableVerification"`
}

// DefaultConfig returns the documented defaults.
func DefaultConfig() Config {
	return Config{
		EnableRetry:                   true,
		DelayRetry:                    config.Duration(time.Second),
		MaxRetryAttempts:              3,
		EnableExpBackoffRetry:         true,
		DelayLocalResync:              config.Duration(5 * time.Second),
		StartupResyncDeadline:         config.Duration(30 * time.Second),
		EnablePeriodicHealing:         true,
		PeriodicHealingInterval:       config.Duration(5 * time.Minute),
		DelayAfterErrorHealing:        config.Duration(5 * time.Second),
		RemoteDBProbingInterval:       config.Duration(3 * time.Second),
		FeedbackRate:                  1000,
		RecordEventHistory:            true,
		EventHistoryAgeLimit:          1440,
		PermanentlyRecordedInitPeriod: 60,
	}
}

// LoadConfig parses the content of controller.conf. Missing options have their defaults. For tests;
// agents use LoadConfigFile.
func LoadConfig(data []byte) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(data, &c); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// LoadConfigFile is LoadConfig for a file. Errors name the file.
func LoadConfigFile(path string) (Config, error) {
	c := DefaultConfig()
	if err := config.LoadFile(path, &c); err != nil {
		return Config{}, err
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("configuration file %s: %w", path, err)
	}
	return c, nil
}

// CheckFile returns all errors in a configuration file, unlike LoadConfigFile, which stops at the
// first kind. override, if not nil, applies command-line flags.
func CheckFile(path string, override func(*Config) error) error {
	c := DefaultConfig()
	return config.Examine(path, &c, func() error {
		var err error
		if override != nil {
			err = override(&c)
		}
		return errors.Join(err, c.Validate())
	})
}

// maxDuration is the longest accepted duration: a longer one is a mistake in the unit.
const maxDuration = config.Duration(365 * 24 * time.Hour)

// Validate returns all invalid options as one error.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		key      string
		value    config.Duration
		min      config.Duration
		relevant bool
	}{
		{"delayRetry", c.DelayRetry, 1, c.EnableRetry},
		{"delayLocalResync", c.DelayLocalResync, 0, true},
		{"startupResyncDeadline", c.StartupResyncDeadline, 1, true},
		{"periodicHealingInterval", c.PeriodicHealingInterval, 1, c.EnablePeriodicHealing},
		{"delayAfterErrorHealing", c.DelayAfterErrorHealing, 0, true},
		{"remoteDBProbingInterval", c.RemoteDBProbingInterval, 1, true},
		{"lostDatabaseTimeout", c.LostDatabaseTimeout, 0, true},
	} {
		switch {
		case !d.relevant:
		case d.value < d.min:
			errs = append(errs, fmt.Errorf("%s is %v: it must be at least %v", d.key, d.value, d.min))
		case d.value > maxDuration:
			errs = append(errs, fmt.Errorf("%s is %v: it must be at most %v (a year); check the unit", d.key, d.value, maxDuration))
		}
	}
	if c.MaxRetryAttempts < 0 {
		errs = append(errs, fmt.Errorf("maxRetryAttempts is %d: it must not be negative (0: no limit)", c.MaxRetryAttempts))
	}
	if c.FeedbackRate < 0 {
		errs = append(errs, fmt.Errorf("feedbackRate is %d: it must not be negative (0: no feedback)", c.FeedbackRate))
	}
	if c.DelayLocalResync >= c.StartupResyncDeadline {
		errs = append(errs, fmt.Errorf("delayLocalResync (%v) must be shorter than startupResyncDeadline (%v)", c.DelayLocalResync, c.StartupResyncDeadline))
	}
	return errors.Join(errs...)
}
