package kubestate

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Format is the number of the format of the Kubernetes state in etcd. Raise it if older versions
// can no longer read it. A database without a number has 1.
const Format = 1

// FormatKey, without models.KSRPrefix, holds the number. KSR writes it first, so that agents see it
// before values that they cannot read.
const FormatKey = "format"

// ErrNewer is wrapped if the format is newer than this version.
var ErrNewer = errors.New("etcd data was written by a newer version of Contiv")

type formatValue struct {
	Number int `json:"number"`
}

// FormatValue returns the value of FormatKey written by this version.
func FormatValue() []byte {
	data, err := json.Marshal(formatValue{Format})
	if err != nil {
		panic(err) // cannot fail for this struct
	}
	return data
}

// CheckFormat returns an error if this version cannot read the format of FormatKey's value.
func CheckFormat(value []byte) error {
	var v formatValue
	if err := json.Unmarshal(value, &v); err == nil && v.Number <= Format {
		return nil
	}
	return fmt.Errorf("%w (its format is %q, this version knows %d): upgrade this node and KSR, or restore a backup of etcd from before the upgrade", ErrNewer, value, Format)
}
