package anthropic

import (
	sdk "github.com/anthropics/anthropic-sdk-go/v2"
)

// setBreakpoints marks what the next request repeats: the tools, the system text, the stable prefix of the conversation,
// and all of it up to the newest message. Blocks of the conversation are shared with params through their pointers.
func setBreakpoints(params *sdk.MessageNewParams, c *conversation, stablePrefix int) {
	if n := len(params.Tools); n > 0 {
		params.Tools[n-1].OfTool.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	if n := len(params.System); n > 0 {
		params.System[n-1].CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	mark(c.last[:min(max(stablePrefix, 0), len(c.last))])
	mark(c.last)
}

// mark puts a breakpoint on the last block that can carry one; doing so twice changes nothing.
func mark(blocks []*sdk.ContentBlockParamUnion) {
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i] == nil {
			continue
		}
		if control := blocks[i].GetCacheControl(); control != nil {
			*control = sdk.NewCacheControlEphemeralParam()
			return
		}
	}
}
