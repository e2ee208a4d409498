package dbresources

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Format is the number of the form in which the Kubernetes state is kept in etcd. It is raised when older
// versions can no longer read what this one writes. A database without a number has 1.
const Format = 1

// FormatKey, without models.KSRPrefix, holds the number. KSR writes it before everything else, so that
// agents see it before they see values that they cannot read.
const FormatKey = "format"

// ErrNewer is wrapped when a newer version has written what this one cannot read.
var ErrNewer = errors.New("what etcd holds was written by a newer version of Contiv")

type formatValue struct {
	Number int `json:"number"`
}

// FormatValue is the value of FormatKey that this version writes.
func FormatValue() []byte {
	data, err := json.Marshal(formatValue{Format})
	if err != nil {
		panic(err) // a struct of plain fields
	}
	return data
}

// CheckFormat returns ErrNewer for a value of FormatKey whose database this version cannot read.
func CheckFormat(value []byte) error {
	var v formatValue
	if err := json.Unmarshal(value, &v); err == nil && v.Number <= Format {
		return nil
	}
	return fmt.Errorf("%w (its format is %q, this version knows %d): upgrade this node and KSR, too, or restore a backup of etcd from before the upgrade", ErrNewer, value, Format)
}
