package vpp

import "context"

// Watch reports that everything may have changed when VPP is connected to again.
func (v *VSwitch) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	reasons := make(chan string, 1)
	v.mu.Lock()
	v.watchers[reasons] = struct{}{}
	v.mu.Unlock()
	go func() {
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.watchers, reasons)
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case <-v.session.ended:
				return
			case reason := <-reasons:
				report(reason)
			}
		}
	}()
	return nil
}

// everythingChanged tells the watchers. What one has not reported yet is replaced.
func (v *VSwitch) everythingChanged(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for reasons := range v.watchers {
		select {
		case <-reasons:
		default:
		}
		reasons <- reason
	}
}
