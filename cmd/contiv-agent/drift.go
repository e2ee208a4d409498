package main

import "context"

// watchDrift reports changes by other programs to the scheduler, which repairs them. worded replaces
// interface names in reasons.
func watchDrift(southbound *southboundComponent, worded func(reason string) string) component {
	return component{name: "drift", tasks: []task{func(ctx context.Context) error {
		return notCanceled(southbound.Watch(ctx, worded))
	}}}
}
