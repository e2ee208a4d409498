package datastore

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Affinity is a host's claim to a block.
type Affinity struct {
	CIDR netip.Prefix
	Host string
	// Confirmed: the host owns the block and does not intend to release it
	Confirmed bool
}

// affinityJSON is Calico's BlockAffinity in etcd.
type affinityJSON struct {
	State   string `json:"state"`
	Deleted bool   `json:"deleted"`
}

// confirmed decodes the value of an affinity, which is empty in Calico before version 3.
func confirmed(data []byte) (bool, error) {
	if len(strings.TrimSpace(string(data))) == 0 {
		return true, nil
	}
	var v affinityJSON
	if err := json.Unmarshal(data, &v); err != nil {
		return false, fmt.Errorf("the affinity is not as Calico writes it: %w", err)
	}
	return isConfirmed(v.State, v.Deleted)
}

func isConfirmed(state string, deleted bool) (bool, error) {
	switch state {
	case "", "confirmed":
		return !deleted, nil
	case "pending", "pendingDeletion":
		return false, nil
	}
	return false, fmt.Errorf("the state %.50q of the affinity is not known", state)
}

// affinitySpec is the spec of the resource BlockAffinity.
type affinitySpec struct {
	State   string `json:"state"`
	Node    string `json:"node"`
	CIDR    string `json:"cidr"`
	Type    string `json:"type"` // "host", "virtual"; "" before Calico 3.31
	Deleted string `json:"deleted"`
}

// DecodeAffinitySpec decodes the spec of a BlockAffinity. ok is false if it is not a host's.
func DecodeAffinitySpec(data []byte) (a Affinity, ok bool, err error) {
	var v affinitySpec
	if err := json.Unmarshal(data, &v); err != nil {
		return a, false, fmt.Errorf("the affinity is not as Calico writes it: %w", err)
	}
	if v.Type != "" && v.Type != "host" {
		return a, false, nil
	}
	a.Host = v.Node
	if err := checkHost(a.Host); err != nil {
		return a, false, err
	}
	if a.CIDR, err = parseCIDR(v.CIDR); err != nil {
		return a, false, err
	}
	a.Confirmed, err = isConfirmed(v.State, v.Deleted == "true")
	return a, err == nil, err
}
