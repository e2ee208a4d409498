package health

import (
	"context"
	"sync"
	"time"
)

// Lasting reports the findings of c only after they have lasted for d.
func Lasting(d time.Duration, c Check) Check {
	var mu sync.Mutex
	since := map[string]time.Time{}
	return Check{Name: c.Name, Look: func(ctx context.Context) (lasting []string) {
		mu.Lock()
		defer mu.Unlock()
		before, now := since, time.Now()
		since = map[string]time.Time{}
		for _, text := range c.Look(ctx) {
			begin, known := before[text]
			if !known {
				begin = now
			}
			since[text] = begin
			if now.Sub(begin) >= d {
				lasting = append(lasting, text)
			}
		}
		return lasting
	}}
}
