package vswitch

import (
	"cmp"
	"slices"
)

// maxSlots bounds the slots of a mapping, unless it has more backends.
const maxSlots = 1024

// Slots returns the backend of each equally likely slot of a load-balanced mapping, given the
// probabilities of its backends. It returns the number of slots for exact proportions, but at most
// 1024 (with the closest proportions) or one per backend. Backends with probability 0 get none,
// unless all have it: then all are equal.
func Slots(probabilities []uint32) (slots []int) {
	weights := make([]uint64, len(probabilities))
	var divisor, sum uint64
	equal := !slices.ContainsFunc(probabilities, func(p uint32) bool { return p > 0 })
	users := 0
	for i, p := range probabilities {
		if weights[i] = uint64(p); equal {
			weights[i] = 1
		}
		if weights[i] > 0 {
			users++
		}
		divisor, sum = gcd(divisor, weights[i]), sum+weights[i]
	}
	if sum == 0 {
		return nil
	}
	if n := uint64(max(maxSlots, users)); sum/divisor > n {
		weights, divisor = apportion(weights, sum, n), 1
	}
	for i, w := range weights {
		for range w / divisor {
			slots = append(slots, i)
		}
	}
	return slots
}

// apportion divides n slots in proportion to the weights, by largest remainders. Every positive
// weight gets a slot.
func apportion(weights []uint64, sum, n uint64) []uint64 {
	type share struct {
		backend   int
		remainder uint64
	}
	parts := make([]uint64, len(weights))
	shares := make([]share, 0, len(weights))
	var given uint64
	for i, w := range weights {
		if w == 0 {
			continue
		}
		parts[i] = max(w*n/sum, 1)
		given += parts[i]
		shares = append(shares, share{i, w * n % sum})
	}
	slices.SortStableFunc(shares, func(a, b share) int { return cmp.Compare(b.remainder, a.remainder) })
	for i := 0; given < n; i++ {
		parts[shares[i%len(shares)].backend]++
		given++
	}
	for given > n {
		largest := 0
		for i, p := range parts {
			if p > parts[largest] {
				largest = i
			}
		}
		parts[largest]--
		given--
	}
	return parts
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
