package config

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Duration is a time.Duration in configuration files: a number of nanoseconds, or a Go duration
// such as "5s" or "1m30s".
type Duration time.Duration

// shortest is the least number of nanoseconds accepted without a unit. A smaller number is meant as
// seconds or minutes.
const shortest = time.Millisecond

// UnmarshalJSON accepts both forms.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	switch value := value.(type) {
	case float64:
		if value != 0 && math.Abs(value) < float64(shortest) {
			return fmt.Errorf(`that is %v nanoseconds: write the unit, such as "%[1]vs" or "%[1]vm"`, value)
		}
		*d = Duration(value)
		return nil
	case string:
		parsed, err := time.ParseDuration(value)
		if err == nil {
			*d = Duration(parsed)
			return nil
		}
	}
	return fmt.Errorf(`a duration is expected: nanoseconds (5000000000) or a text such as "5s", "1m30s"`)
}

// MarshalJSON returns the Go form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// Std returns a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }
