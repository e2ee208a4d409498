package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/config"
)

// Config is the content of controller.conf: seed 001, "Controller
// configuration". Durations are nanoseconds or Go durations.
type Config struct {
	// EnableRetry repeats failed operations: after DelayRetry, at most
	// MaxRetryAttempts times, the delay doubling with EnableExpBackoffRetry.
	EnableRetry           bool            `json:"enableRetry"`
	DelayRetry            config.Duration `json:"delayRetry"`
	MaxRetryAttempts      int             `json:"maxRetryAttempts"`
	EnableExpBackoffRetry bool            `json:"enableExpBackoffRetry"`

	// DelayLocalResync is how long to wait for etcd before the startup resync
	// is made from the local mirror.
	DelayLocalResync config.Duration `json:"delayLocalResync"`
	// StartupResyncDeadline is when, after the start, the first resync must
	// have been executed; else the agent ends.
	StartupResyncDeadline config.Duration `json:"startupResyncDeadline"`

	// EnablePeriodicHealing has the southbound read, and repaired, at this interval:
	// what no event told, or could not be repaired when it was told. What it costs is in
	// docs/controller.md.
	EnablePeriodicHealing   bool            `json:"enablePeriodicHealing"`
	PeriodicHealingInterval config.Duration `json:"periodicHealingInterval"`
	// DelayAfterErrorHealing is the time from an error to its healing.
	DelayAfterErrorHealing config.Duration `json:"delayAfterErrorHealing"`
	// RemoteDBProbingInterval is how often the connection to etcd is probed, and
	// at least how often a lost one is tried again.
	RemoteDBProbingInterval config.Duration `json:"remoteDBProbingInterval"`

	// FeedbackRate is how many statuses of external values are written to etcd in a
	// second, at most; 0: none, ever.
	FeedbackRate int `json:"feedbackRate"`
	// LigatoStatus publishes statuses in the form of the ligato vpp-agent, too.
	LigatoStatus bool `json:"ligatoStatus"`
	// LostDatabaseTimeout is how long an etcd that lost its data is not believed while
	// KSR does not fill it again; 0: as long as it takes.
	LostDatabaseTimeout config.Duration `json:"lostDatabaseTimeout"`

	RecordEventHistory bool `json:"recordEventHistory"`
	// EventHistoryAgeLimit, in minutes: older records are forgotten, as are all but some 100 000.
	EventHistoryAgeLimit uint32 `json:"eventHistoryAgeLimit"`
	// PermanentlyRecordedInitPeriod, in minutes after the start: records of
	// that time are forgotten last.
	PermanentlyRecordedInitPeriod uint32 `json:"permanentlyRecordedInitPeriod"`

	// EnableVerification lets a VerificationResync follow each event. For tests.
	EnableVerification bool `json:"enableVerification"`
}

// DefaultConfig holds the documented defaults.
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

// LoadConfig reads the content of controller.conf; what it does not mention has
// its default. Agents use LoadConfigFile; LoadConfig is for tests, which write configuration down
// where it counts.
func LoadConfig(data []byte) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(data, &c); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// LoadConfigFile is LoadConfig for a file; errors name it.
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

// CheckFile returns all mistakes in a file like controller.conf: those of LoadConfigFile, without giving up after the first kind.
// override, if it is not nil, sets what flags say.
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

// longest is the longest duration that can be meant.
const longest = config.Duration(365 * 24 * time.Hour)

// Validate reports values that cannot work, all of them.
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
		case d.value > longest:
			errs = append(errs, fmt.Errorf("%s is %v: it must be at most %v, a year: is the unit the wrong one?", d.key, d.value, longest))
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
